#include "seam/expert_rows.hpp"

#include <fmt/format.h>

#include "microscale/error.hpp"

namespace microscale {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, sentence);
}

void check_offsets(const char* operation, const ExpertRows& groups, std::int64_t rows) {
  const grouped::ExpertTable table = expert_table(groups);
  std::int64_t former = 0;
  for (std::int64_t e = 0; e <= groups.experts; ++e) {
    const std::int64_t offset = grouped::number_at(table, e);
    if (offset < former || offset > rows)
      refuse(
          fmt::format("{}: offset {} is {} after {} for {} rows; offsets must not decrease or "
                      "leave the rows of the input",
                      operation, e, offset, former, rows));
    former = offset;
  }
}

void check_counts(const char* operation, const ExpertRows& groups) {
  const grouped::ExpertTable table = expert_table(groups);
  for (std::int64_t e = 0; e < groups.experts; ++e) {
    const std::int64_t count = grouped::number_at(table, e);
    if (count < 0 || count > groups.capacity)
      refuse(fmt::format("{}: expert {} has a count of {} rows; it must be 0 to the capacity, {}",
                         operation, e, count, groups.capacity));
  }
}

}  // namespace

void check_expert_rows(const char* operation, const ExpertRows& groups, std::int64_t rows,
                       bool on_device) {
  if (groups.experts < 0)
    refuse(
        fmt::format("{}: {} experts; there must be 0 or more of them", operation, groups.experts));
  if (groups.type > OffsetType::i64)
    refuse(fmt::format("{}: OffsetType {} is no type of offsets; use i32 or i64", operation,
                       static_cast<int>(groups.type)));
  if (groups.experts == 0) return;
  if (groups.offsets == nullptr && groups.counts == nullptr)
    refuse(
        fmt::format("{}: {} experts with no offsets and no counts; pass the address of "
                    "experts + 1 offsets, or of as many counts as experts",
                    operation, groups.experts));
  if (groups.offsets != nullptr && groups.counts != nullptr)
    refuse(fmt::format("{}: both offsets and counts say which rows are whose; pass one of the two",
                       operation));
  if (groups.counts != nullptr && (groups.capacity < 0 || groups.capacity > rows / groups.experts))
    refuse(
        fmt::format("{}: {} experts with a capacity of {} rows each for an input of {}; capacity "
                    "is the rows from expert to expert, and the input has all of them",
                    operation, groups.experts, groups.capacity, rows));
  if (groups.counts == nullptr && groups.capacity != 0)
    refuse(
        fmt::format("{}: a capacity of {} rows beside offsets; it goes with counts, so leave it 0",
                    operation, groups.capacity));
  const std::uintptr_t at =
      reinterpret_cast<std::uintptr_t>(groups.counts != nullptr ? groups.counts : groups.offsets);
  if (const unsigned size = groups.type == OffsetType::i32 ? 4 : 8; at % size != 0)
    refuse(fmt::format("{}: the {} are at an address that is no multiple of {}; align them",
                       operation, groups.counts != nullptr ? "counts" : "offsets", size));
  if (on_device) return;
  if (groups.counts != nullptr)
    check_counts(operation, groups);
  else
    check_offsets(operation, groups, rows);
}

}  // namespace microscale
