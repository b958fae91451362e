// Memory that a call reads or writes, and whether pieces of it overlap.
#pragma once

#include <cstdint>
#include <span>

namespace microscale {

/// More bytes than any process on x86-64 has; sizes are compared with it before they are
/// multiplied.
inline constexpr double addressable_bytes = 0x1p47;

struct MemoryRange {
  const char* name;
  const void* begin;  // null: none
  std::int64_t bytes;

  bool overlaps(const MemoryRange& other) const;
};

/// Throws Error{invalid_argument} where `output` overlaps one of `others`.
void check_apart(const char* operation, const MemoryRange& output,
                 std::span<const MemoryRange> others);

}  // namespace microscale
