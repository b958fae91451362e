#include "core/memory_range.hpp"

#include <fmt/format.h>

#include "microscale/error.hpp"

namespace microscale {

bool MemoryRange::overlaps(const MemoryRange& other) const {
  const auto first = reinterpret_cast<std::uintptr_t>(begin),
             second = reinterpret_cast<std::uintptr_t>(other.begin);
  return begin && other.begin && bytes > 0 && other.bytes > 0 &&
         first < second + static_cast<std::uintptr_t>(other.bytes) &&
         second < first + static_cast<std::uintptr_t>(bytes);
}

void check_apart(const char* operation, const MemoryRange& output,
                 std::span<const MemoryRange> others) {
  for (const MemoryRange& other : others)
    if (output.overlaps(other))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} overlaps {}; give it memory of its own", operation,
                              output.name, other.name));
}

}  // namespace microscale
