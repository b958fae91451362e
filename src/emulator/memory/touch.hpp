// The checks of one contiguous piece of an access: written bytes, races, waits, fences; and the
// notes of it for the accesses to come.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "emulator/memory/launch_memory.hpp"
#include "emulator/memory/reporter.hpp"

namespace microscale::emulator {

enum class SpaceKind : std::uint8_t { global, shared, local, constant, param, tensor };

/// A memory that an address was resolved to.
struct Region {
  SpaceKind kind = SpaceKind::global;
  std::uint64_t begin = 0;  // its first address
  std::uint64_t bytes = 0;
  std::uint8_t* data = nullptr;
  Shadow* shadow = nullptr;  // null: constant and param, always written
  std::uint32_t tag = 0;     // of the cells' launch (global) or cluster (shared)
  RecordLog* log = nullptr;  // null: local memory, where there are no races
};

/// Records of others that were found ordered before a warp, which they stay: as writers, and as
/// readers with those their lists name.
struct KnownOrder {
  static constexpr std::uint32_t count = 16;
  std::uint32_t id[2][count] = {};

  bool has(std::uint32_t record, bool readers) const {
    return id[readers][record % count] == record;
  }
  void add(std::uint32_t record, bool readers) { id[readers][record % count] = record; }
};

/// What the memory knows of a warp.
struct WarpMemory {
  Knowledge know;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;  // of warp-level synchronisation
  RecordCache global_records, shared_records;
  KnownOrder global_order, shared_order;
  std::array<Allocation*, 4> last{};  // that it touched; a kernel has a few buffers in turn
  std::uint32_t last_next = 0;
  std::uint32_t committed[async_kinds] = {};  // groups
  std::uint32_t tensor_lanes = 0;             // that have begun products or copies of tcgen05
  Clock tensor_after;  // what a tcgen05.fence::after_thread_sync of its own has made known
  // The first wait for cp.async since lanes were synchronised: each lane knows its own copies only.
  std::uint32_t waited_epoch = ~0u, waited_slot = 0, waited_before = 0;
};

/// Which lanes touch which bytes of a contiguous piece.
struct Lanes {
  std::uint32_t first = 0;  // of the first byte
  std::uint32_t bytes =
      0;  // of each; a power of two; 0: all of the piece is `first`'s (several_lanes: all)
};

enum class Mode : std::uint8_t { read, write, update };
const char* verb(Mode mode);  ///< "reads"

struct LaneCells;

/// Who touches, and in which way.
struct Toucher {
  LaunchMemory& launch;
  Reporter& reporter;
  const Agent& agent;
  WarpMemory& warp;
  std::uint32_t domain = 0;
  Order order = Order::weak;
  MemoryScope scope = MemoryScope::sys;
  bool asynchronous = false;         // through the async proxy
  std::uint32_t slot = 0, time = 0;  // of the record: the warp's own, or an asynchronous copy's
  Unit unit = Unit::none;            // who does it, if no load or store

  /// Checks and notes bytes [start, start + count) of `page`; `address` is that of the page's
  /// first. `now` and `incoming`: what a write finds there and brings, to forgive lanes that store
  /// the same.
  void check(ShadowPage& page, const Region& region, std::uint64_t address, std::uint32_t start,
             std::uint32_t count, Lanes lanes, Mode mode, const std::uint8_t* now,
             const std::uint8_t* incoming) const;

  /// The same for cells of many lanes at once, where that is a matter of course: order is weak, the
  /// proxy generic. False, and nothing has happened, where it takes a closer look.
  bool accept_read(const Region& region, const LaneCells& cells) const;
  bool accept_write(const Region& region, const LaneCells& cells) const;
  /// The same for 32 lanes, each of which has one of 32 neighbouring cells, where those name one
  /// writer and one reader.
  bool accept_row(const Region& region, Cell* writers, Cell* readers, Mode mode) const;
  /// The same for one lane's one cell. `number`: that of a record without a list of readers, or 0
  /// as long as no other lane of this access has needed one.
  bool accept_cell(const Region& region, Cell& writer, Cell& reader, std::uint32_t lane, Mode mode,
                   std::uint32_t& number) const;

 private:
  struct Piece {
    const Region& region;
    std::uint64_t address;         // of the first cell
    std::uint32_t shift;           // of a cell
    std::uint32_t lane, per_lane;  // the first lane; log2 of cells of each
    std::uint32_t bytes;           // named in a finding
    Mode mode;
    const std::uint8_t *now, *incoming;
    std::uint32_t lane_of(std::uint32_t cell) const { return lane + (cell >> per_lane); }
  };
  RecordCache& records(const Region& region) const {
    return region.kind == SpaceKind::global ? warp.global_records : warp.shared_records;
  }
  void note_undefined(const ShadowPage& page, std::uint32_t start, std::uint32_t count, Lanes lanes,
                      int first, std::string sentence, std::uint64_t address) const;
  void check_cells(const Piece& piece, const Cell* cells, std::uint32_t count, bool readers) const;
  void check_run(const Piece& piece, const Cell* cells, std::uint32_t from, std::uint32_t to,
                 bool readers) const;
  bool clean(const Region& region, const Cell* cells, const Cell* lanes, std::uint32_t count,
             bool readers) const;
  void note_reads(const Piece& piece, Cell* cells, std::uint32_t count) const;
  Record own_record(Mode mode) const;
  std::uint32_t own_number(const Region& region, Mode mode, std::uint32_t previous,
                           std::uint32_t depth) const;
  std::uint32_t reader_number(const Region& region, std::uint32_t before) const;
  bool ordered(const Record& other, std::uint64_t address) const;
  bool forgiven(const Record& other) const;
  bool stores_again(const Piece& piece, const Record& other, std::uint32_t from,
                    std::uint32_t to) const;
  void report(const Piece& piece, const Record& other, Cell cell, std::uint32_t at,
              bool within_warp) const;
  bool waited_alone(const Record& other) const;
  void report_fence(const Piece& piece, const Record& other, std::uint32_t at) const;
  // Of tensor memory (touch_tensor.cpp).
  bool in_pipeline(const Record& other) const;
  void check_tensor_fences(const Piece& piece, const Record& other, std::uint32_t at) const;
  void report_tensor(const Piece& piece, const Record& other, std::uint32_t at) const;
};

/// All of [offset, offset + count) of `region`; `copy(data, done, part)` moves each piece while its
/// page is held.
template <class Copy>
void touch(const Toucher& who, const Region& region, std::uint64_t offset, std::uint64_t count,
           Lanes lanes, Mode mode, const std::uint8_t* incoming, const Copy& copy) {
  if (!region.shadow) {
    copy(region.data + offset, std::uint64_t{0}, count);
    return;
  }
  const bool threads = region.kind == SpaceKind::global;
  for (std::uint64_t done = 0; done < count;) {
    ShadowPage& page = region.shadow->page(offset);
    const std::uint64_t start = offset % ShadowPage::bytes;
    const std::uint64_t part = std::min(count - done, ShadowPage::bytes - start);
    Lanes here = lanes;
    if (lanes.bytes) here.first += static_cast<std::uint32_t>(done / lanes.bytes);
    if (threads) page.lock();
    who.check(page, region, region.begin + offset - start, static_cast<std::uint32_t>(start),
              static_cast<std::uint32_t>(part), here, mode, region.data + offset,
              incoming ? incoming + done : nullptr);
    copy(region.data + offset, done, part);
    if (threads) page.unlock();
    offset += part;
    done += part;
  }
}

}  // namespace microscale::emulator
