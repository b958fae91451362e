#include "checkpoint/stored_type.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

std::uint64_t bytes_of(StoredType type, const std::vector<std::int64_t>& shape) {
  const auto bytes = stored_bytes(type, shape);
  EXPECT_TRUE(succeeds(bytes));
  return bytes ? bytes.value() : ~std::uint64_t{0};
}

TEST(StoredType, names_round_trip_and_differ) {
  std::set<std::string> names;
  for (int i = 0; i < stored_type_count; ++i) {
    const auto type = static_cast<StoredType>(i);
    EXPECT_EQ(stored_type_from_name(to_string(type)), type);
    names.insert(to_string(type));
  }
  EXPECT_EQ(names.size(), 22u);
  EXPECT_EQ(stored_type_from_name("BF16"), StoredType::bf16);
  EXPECT_EQ(stored_type_from_name("F8_E4M3FNUZ"), StoredType::f8_e4m3fnuz);
}

TEST(StoredType, unknown_names_are_nothing) {
  for (const char* name : {"", "bf16", "F4_E2M1", "F8", "BF16 ", "FLOAT"}) {
    EXPECT_EQ(stored_type_from_name(name), std::nullopt) << name;
  }
}

TEST(StoredType, widths_are_those_of_the_format) {
  const std::vector<int> bits{8,  4,  6,  6,  8,  8,  8,  8,  8,  8,  8,
                              16, 16, 16, 16, 32, 32, 32, 64, 64, 64, 64};
  for (int i = 0; i < stored_type_count; ++i) {
    EXPECT_EQ(bits_per_element(static_cast<StoredType>(i)), bits[static_cast<std::size_t>(i)])
        << to_string(static_cast<StoredType>(i));
  }
}

TEST(StoredBytes, multiplies_shape_and_width) {
  EXPECT_EQ(bytes_of(StoredType::f32, {}), 4u);
  EXPECT_EQ(bytes_of(StoredType::bf16, {3, 5}), 30u);
  EXPECT_EQ(bytes_of(StoredType::f4, {3, 2}), 3u);
  EXPECT_EQ(bytes_of(StoredType::f6_e2m3, {4}), 3u);
  EXPECT_EQ(bytes_of(StoredType::i64, {7, 0, 2}), 0u);
  EXPECT_EQ(bytes_of(StoredType::u8, {std::int64_t{1} << 48}), std::uint64_t{1} << 48);
}

TEST(StoredBytes, part_of_a_byte_is_refused) {
  EXPECT_TRUE(fails_with(stored_bytes(StoredType::f4, std::vector<std::int64_t>{3}),
                         "3 elements of 4 bits do not fill whole bytes"));
  EXPECT_TRUE(fails_with(stored_bytes(StoredType::f6_e3m2, std::vector<std::int64_t>{2}),
                         "2 elements of 6 bits"));
}

TEST(StoredBytes, overflow_is_refused_whatever_the_order) {
  const std::int64_t big = std::int64_t{1} << 40;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{big, big}, {0, big, big}, {big, big, 0}}) {
    EXPECT_TRUE(fails_with(stored_bytes(StoredType::u8, shape), "product of its dimensions"));
  }
  // 2^63 elements still fit 64 bits; their bits do not.
  const std::vector<std::int64_t> wide{std::int64_t{1} << 48, std::int64_t{1} << 15};
  EXPECT_TRUE(fails_with(stored_bytes(StoredType::f4, wide), "size in bits overflows"));
}

TEST(StoredBytes, impossible_dimensions_are_refused) {
  const std::int64_t limit = std::int64_t{1} << 48;
  EXPECT_TRUE(fails_with(stored_bytes(StoredType::u8, std::vector<std::int64_t>{-1}), "-1"));
  EXPECT_TRUE(fails_with(stored_bytes(StoredType::u8, std::vector<std::int64_t>{limit + 1}),
                         "not in 0 ... 2^48"));
}

}  // namespace
}  // namespace microscale
