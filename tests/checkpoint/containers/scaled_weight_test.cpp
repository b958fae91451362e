#include "checkpoint/containers/scaled_weight.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

using Shape = std::vector<std::int64_t>;

std::string fitted(const Shape& weight, const Shape& scales,
                   std::optional<std::pair<std::int64_t, std::int64_t>> block = {}) {
  const auto grid = fit_scale_grid(weight, scales, block);
  return grid ? grid->description() : "nothing";
}

TEST(ScaleGrid, follows_from_the_shapes) {
  EXPECT_EQ(fitted({64, 96}, {}), "one scale per tensor");
  EXPECT_EQ(fitted({64, 96}, {1}), "one scale per tensor");
  EXPECT_EQ(fitted({64, 96}, {1, 1}), "one scale per tensor");
  EXPECT_EQ(fitted({64, 96}, {64}), "one scale per row");
  EXPECT_EQ(fitted({64, 96}, {64, 1}), "one scale per row");
  EXPECT_EQ(fitted({64, 96}, {1, 96}), "one scale per column");
  EXPECT_EQ(fitted({300, 512}, {3, 4}), "one scale per 128 x 128 block");
  EXPECT_EQ(fitted({256, 512}, {4, 4}), "one scale per 64 x 128 block");
  EXPECT_EQ(fitted({256, 512}, {256, 4}), "one scale per 1 x 128 block");
  EXPECT_EQ(fitted({300, 512}, {7, 4}), "nothing");
  EXPECT_EQ(fitted({300, 512}, {2, 3, 4}), "nothing");
  EXPECT_EQ(fitted({300, 512}, {0, 4}), "nothing");
}

TEST(ScaleGrid, follows_config_json_where_shapes_leave_a_choice) {
  EXPECT_EQ(fitted({300, 512}, {7, 4}, std::pair(48, 128)), "one scale per 48 x 128 block");
  EXPECT_EQ(fitted({300, 512}, {3, 4}, std::pair(100, 128)), "one scale per 100 x 128 block");
  EXPECT_EQ(fitted({64, 64}, {1, 1}, std::pair(128, 128)), "one scale per tensor");
}

TEST(ScaleGrid, of_stacked_matrices_holds_for_each_or_for_all) {
  EXPECT_EQ(fitted({8, 256, 384}, {8, 2, 3}), "one scale per 128 x 128 block");
  EXPECT_EQ(fitted({8, 256, 384}, {8}), "one scale per matrix");
  EXPECT_EQ(fitted({8, 256, 384}, {8, 1, 1}), "one scale per matrix");
  EXPECT_EQ(fitted({8, 256, 384}, {8, 256}), "one scale per row");
  EXPECT_EQ(fitted({8, 256, 384}, {8, 1, 384}), "one scale per column");
  EXPECT_EQ(fitted({8, 256, 384}, {1}), "one scale per tensor");
  EXPECT_EQ(fitted({8, 256, 384}, {4, 2, 3}), "nothing");
}

TEST(ScaleGrid, takes_scales_of_floats_and_powers_of_two) {
  for (const StoredType type :
       {StoredType::f32, StoredType::bf16, StoredType::f16, StoredType::f8_e8m0, StoredType::u8}) {
    EXPECT_TRUE(is_scale_type(type));
  }
  for (const StoredType type : {StoredType::i8, StoredType::i32, StoredType::f8_e4m3}) {
    EXPECT_FALSE(is_scale_type(type));
  }
}

}  // namespace
}  // namespace microscale
