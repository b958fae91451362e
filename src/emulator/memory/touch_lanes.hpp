// The usual access: 32 lanes at once where nothing is amiss, page by page. Whatever takes a closer
// look is left to touch().
#pragma once

#include <cstdint>

#include "emulator/memory/touch.hpp"

namespace microscale::emulator {

/// Cells of one page that lanes touch.
struct LaneCells {
  Cell *writers = nullptr, *readers = nullptr;
  const std::uint32_t* index = nullptr;  // which of them; null: the first `count`
  const Cell* lanes = nullptr;           // who touches each
  std::uint32_t count = 0;
};

/// The lanes of one access, all inside one region and each at a multiple of its bytes.
struct LaneBatch {
  const std::uint64_t* offset = nullptr;  // in the region; 32 of them
  std::uint32_t lanes = 0;                // those that take part
  std::uint32_t bytes = 0;                // of each, a power of two up to 32
  bool one_page = false;                  // all of them in the first one's
  bool consecutive = false;               // all 32, each behind the one before
};

/// Checks, notes and moves `batch`, between the memory and `stage` (32 x bytes, lane by lane; null:
/// nothing moves). Answers the lanes that were not: nothing has happened to them. `who` is weak and
/// of the generic proxy, `mode` read or write.
std::uint32_t touch_lanes(const Toucher& who, const Region& region, const LaneBatch& batch,
                          Mode mode, std::uint8_t* stage);

/// The same for 32 lanes one after the other, the first of them at `offset` of `region`. False:
/// nothing has happened.
bool touch_row(const Toucher& who, const Region& region, std::uint64_t offset, std::uint32_t bytes,
               Mode mode, std::uint8_t* stage);

}  // namespace microscale::emulator
