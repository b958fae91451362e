#include "checkpoint/containers/stored_weight.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

// Element i has the value i.
class Counting final : public StoredWeight {
 public:
  explicit Counting(const ModelTensor& codes)
      : StoredWeight({"a.weight", {2, 6, 4}, StoredType::f32, "numbers", {&codes}}) {}
  Status decode(std::int64_t first, std::int64_t count,
                std::span<std::uint8_t> out) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(first + i);
      std::memcpy(out.data() + i * 4, &value, 4);
    }
    return success();
  }
};

TensorEntry entry() { return {"a.codes", StoredType::u8, {2, 6, 2}, 100, 124}; }

TEST(StoredWeight, knows_its_size_and_that_of_its_parts) {
  const TensorEntry stored = entry();
  const ModelTensor codes{0, &stored};
  const Counting weight(codes);
  EXPECT_EQ(weight.elements(), 48);
  EXPECT_EQ(weight.value_bytes(), 4);
  EXPECT_EQ(weight.bytes(), 24u);
  EXPECT_EQ(&weight.codes(), &codes);
  EXPECT_EQ(weight.blocks(), nullptr);
  EXPECT_TRUE(fails_with(weight.read_blocks(0, 16, {}, {}), "'a.weight' is numbers"));
}

TEST(StoredWeight, cuts_tiles_out_of_its_values_along_and_across_rows) {
  const TensorEntry stored = entry();
  const ModelTensor codes{0, &stored};
  const Counting weight(codes);
  std::vector<std::uint8_t> scratch(tile_scratch_bytes), out(2 * 3 * 4);
  const auto value = [&](std::size_t i) {
    float read = 0;
    std::memcpy(&read, out.data() + i * 4, 4);
    return read;
  };
  // Of the second [6, 4] the odd rows.
  const MatrixSlice odd{"a", 3, 4, 24 + 4, 8, 1};
  ASSERT_TRUE(succeeds(weight.read_tile(odd, {1, 2, 1, 3}, out, scratch)));
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t col = 0; col < 3; ++col) {
      EXPECT_EQ(value(row * 3 + col), static_cast<float>(24 + 4 + (row + 1) * 8 + col + 1));
    }
  }
  // The first one's columns as rows.
  const MatrixSlice transposed{"a", 4, 6, 0, 1, 4};
  ASSERT_TRUE(succeeds(weight.read_tile(transposed, {1, 2, 0, 3}, out, scratch)));
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t col = 0; col < 3; ++col) {
      EXPECT_EQ(value(row * 3 + col), static_cast<float>(row + 1 + col * 4));
    }
  }
}

TEST(StoredWeight, values_become_other_types) {
  const std::vector<float> values{1.0f, -2.5f, 0.1f};
  std::vector<std::uint8_t> wide(12), narrow(6), back(12);
  std::memcpy(wide.data(), values.data(), 12);
  convert_values(wide, 4, DType::bf16, narrow);
  const std::uint16_t wanted[]{0x3F80, 0xC020, 0x3DCD};
  EXPECT_EQ(std::memcmp(narrow.data(), wanted, 6), 0);
  convert_values(narrow, 2, DType::f32, back);
  const std::uint32_t widened[]{0x3F800000, 0xC0200000, 0x3DCD0000};
  EXPECT_EQ(std::memcmp(back.data(), widened, 12), 0);
  convert_values(narrow, 2, DType::f16, narrow);
  const std::uint16_t halves[]{0x3C00, 0xC100, 0x2E68};
  EXPECT_EQ(std::memcmp(narrow.data(), halves, 6), 0);
}

}  // namespace
}  // namespace microscale
