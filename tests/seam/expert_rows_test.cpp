#include "seam/expert_rows.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "microscale/error.hpp"

namespace microscale {
namespace {

std::string refusal(const ExpertRows& groups, std::int64_t rows, bool on_device = false) {
  try {
    check_expert_rows("op", groups, rows, on_device);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "none";
}
void expect_part(const std::string& text, const char* part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

const std::vector<std::int32_t> offsets{1, 4, 4, 9};
const std::vector<std::int64_t> counts{0, 3, 2};

TEST(ExpertRows, are_told_by_offsets) {
  const ExpertRows groups{offsets.data(), OffsetType::i32, 3};
  EXPECT_EQ(refusal(groups, 9), "none");
  const grouped::ExpertTable table = expert_table(groups, 9);
  const std::int64_t wanted[][2] = {{1, 3}, {4, 0}, {4, 5}};
  for (std::int64_t e = 0; e < 3; ++e) {
    const auto [first, count] = grouped::rows_of_expert(table, e);
    EXPECT_EQ(first, wanted[e][0]);
    EXPECT_EQ(count, wanted[e][1]);
    EXPECT_EQ(grouped::region_rows(table.capacity, count), count);
  }
  const ExpertNumbers numbers = expert_numbers(groups);
  EXPECT_EQ(numbers.data, offsets.data());
  EXPECT_EQ(numbers.bytes, 16);
}

TEST(ExpertRows, are_told_by_counts_and_a_capacity) {
  const ExpertRows groups{nullptr, OffsetType::i64, 3, counts.data(), 3};
  EXPECT_EQ(refusal(groups, 9), "none");
  EXPECT_EQ(refusal(groups, 10), "none");
  const grouped::ExpertTable table = expert_table(groups, 9);
  for (std::int64_t e = 0; e < 3; ++e) {
    const auto [first, count] = grouped::rows_of_expert(table, e);
    EXPECT_EQ(first, 3 * e);
    EXPECT_EQ(count, counts[static_cast<std::size_t>(e)]);
    EXPECT_EQ(grouped::region_rows(table.capacity, count), 3);
  }
  const ExpertNumbers numbers = expert_numbers(groups);
  EXPECT_STREQ(numbers.name, "counts");
  EXPECT_EQ(numbers.data, counts.data());
  EXPECT_EQ(numbers.bytes, 24);
}

TEST(ExpertRows, may_be_nobodys_at_all) {
  EXPECT_EQ(refusal({}, 0), "none");
  EXPECT_EQ(refusal({}, 5), "none");
  const std::vector<std::int64_t> zeros(3);
  const ExpertRows groups{nullptr, OffsetType::i64, 3, zeros.data(), 0};  // a capacity of no rows
  EXPECT_EQ(refusal(groups, 5), "none");
  const grouped::ExpertTable table = expert_table(groups, 5);
  EXPECT_EQ(grouped::rows_of_expert(table, 2).count, 0);
  EXPECT_EQ(grouped::region_rows(table.capacity, 0), 0);
}

TEST(ExpertRows, are_refused_with_the_reason) {
  expect_part(refusal({nullptr, OffsetType::i32, -1}, 9), "-1 experts");
  expect_part(refusal({nullptr, OffsetType::i32, 3}, 9), "3 experts with no offsets and no counts");
  expect_part(refusal({offsets.data(), OffsetType::i32, 3, counts.data(), 3}, 9), "one of the two");
  expect_part(refusal({offsets.data(), OffsetType::i32, 3, nullptr, 3}, 9), "beside offsets");
  expect_part(refusal({offsets.data(), OffsetType::i32, 3}, 8), "offset 3 is 9 after 4 for 8 rows");
  const ExpertRows counted{nullptr, OffsetType::i64, 3, counts.data(), 3};
  ExpertRows groups = counted;
  groups.capacity = -1;
  expect_part(refusal(groups, 9), "a capacity of -1 rows");
  expect_part(refusal(counted, 8), "3 experts with a capacity of 3 rows each for an input of 8");
  groups.capacity = std::int64_t{1} << 62;  // times the experts: more than 64 bits
  expect_part(refusal(groups, 9), "capacity");
  groups.capacity = 2;
  expect_part(refusal(groups, 9),
              "expert 1 has a count of 3 rows; it must be 0 to the capacity, 2");
  EXPECT_EQ(refusal(groups, 9, /*on_device=*/true), "none");  // counts are not read
  expect_part(refusal(counted, 8, /*on_device=*/true), "capacity");
  const std::vector<std::int64_t> negative{0, -1, 0};
  groups = counted;
  groups.counts = negative.data();
  expect_part(refusal(groups, 9), "count of -1");
}

}  // namespace
}  // namespace microscale
