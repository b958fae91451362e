// Where a block's shared memory holds the variables that an entry and its callees use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "emulator/ptx/module.hpp"

namespace microscale::emulator::ptx {

struct SharedLayout {
  /// By index in Module::variables: the offset of a `.shared` one that is used, else -1. All
  /// `.extern .shared x[]` start at `static_bytes`, which is rounded up to their alignment.
  std::vector<std::int64_t> module_offset;
  /// By index in Module::functions: what to add to the offsets of its own `.shared` variables, -1
  /// for functions that the entry does not reach. The entry's own are at 0.
  std::vector<std::int64_t> function_offset;
  std::int64_t static_bytes = 0;  // dynamic memory starts here
};

/// Parses the bodies of the entry and of all functions it can reach.
Result<SharedLayout> shared_layout(const Module& module, std::size_t entry);

}  // namespace microscale::emulator::ptx
