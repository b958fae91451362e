// Which rows are an expert's, on the host: ExpertRows as layouts/grouped.hpp reads it, and what is
// refused of it.
#pragma once

#include <cstdint>
#include <limits>

#include "layouts/grouped.hpp"
#include "microscale/grouped.hpp"

namespace microscale {

/// `rows`: of the matrix.
inline grouped::ExpertTable expert_table(
    const ExpertRows& groups, std::int64_t rows = std::numeric_limits<std::int64_t>::max()) {
  return {groups.counts ? groups.counts : groups.offsets, groups.type == OffsetType::i64,
          groups.counts ? groups.capacity : grouped::no_capacity, rows};
}

/// What memory the table reads, for those who check it.
struct ExpertNumbers {
  const char* name;
  const void* data;
  std::int64_t bytes;
};
inline ExpertNumbers expert_numbers(const ExpertRows& groups) {
  const std::int64_t each = groups.type == OffsetType::i64 ? 8 : 4;
  if (groups.counts) return {"counts", groups.counts, groups.experts * each};
  return {"offsets", groups.offsets, (groups.experts + 1) * each};
}

/// Throws Error: neither offsets nor counts, or both; a capacity that the matrix of `rows` rows
/// does not have for every expert; and of host memory numbers that ExpertRows does not allow.
void check_expert_rows(const char* operation, const ExpertRows& groups, std::int64_t rows,
                       bool on_device);

}  // namespace microscale
