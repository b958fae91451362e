#include "checkpoint/containers/column_weight.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/support.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

constexpr std::int64_t experts = 2, wide = 70, high = 5;  // inputs and outputs

// Element [e, k, n] is its own place, as BF16 rounds it; lines are whole or begin at blocks.
class Places final : public ColumnWeight {
 public:
  explicit Places(WeightFacts facts) : ColumnWeight(std::move(facts)) {}

 private:
  Status decode_line(std::int64_t line, std::int64_t input, std::int64_t count,
                     std::uint8_t* out) const override {
    EXPECT_EQ(input % align, 0);
    EXPECT_TRUE(count % align == 0 || input + count == wide);
    for (std::int64_t k = input; k < input + count; ++k, out += 2) {
      const std::int64_t place = (line / high * wide + k) * high + line % high;
      const std::uint16_t bits = float_to_bf16(static_cast<float>(place));
      std::memcpy(out, &bits, sizeof bits);
    }
    return success();
  }
  std::optional<BlockCoding> coding_of_lines() const override { return std::nullopt; }
  Status read_line(std::int64_t, std::int64_t, std::int64_t, std::span<std::uint8_t>,
                   std::span<std::uint8_t>) const override {
    return Failure{ErrorCode::unsupported, "no blocks"};
  }
};

std::uint16_t at(const std::vector<std::uint8_t>& bytes, std::int64_t i) {
  std::uint16_t bits;
  std::memcpy(&bits, bytes.data() + i * 2, sizeof bits);
  return bits;
}

TEST(ColumnWeight, runs_of_the_dense_tensor_are_in_their_places) {
  WeightFacts facts;
  facts.shape = {experts, wide, high};
  facts.type = StoredType::bf16;
  const Places weight(std::move(facts));
  const std::int64_t all = experts * wide * high;
  for (const std::int64_t run : {1, 4, 5, 33, 161, 350, 700}) {
    for (std::int64_t first = 0; first + run <= all; first += 37) {
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(run) * 2);
      ASSERT_TRUE(testing::succeeds(weight.decode(first, run, bytes)));
      for (std::int64_t i = 0; i < run; ++i) {
        ASSERT_EQ(at(bytes, i), float_to_bf16(static_cast<float>(first + i)))
            << run << " from " << first;
      }
    }
  }
}

TEST(ColumnWeight, tiles_of_an_expert_are_its_transposed_matrix) {
  WeightFacts facts;
  facts.shape = {experts, wide, high};
  facts.type = StoredType::bf16;
  const Places weight(std::move(facts));
  const MatrixSlice slice{"e", high, wide, wide * high, 1, high};
  std::vector<std::uint8_t> scratch(tile_scratch_bytes);
  for (const Tile tile : {Tile{0, high, 0, wide}, Tile{2, 2, 32, 38}, Tile{1, 1, 3, 9}}) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tile.elements()) * 2);
    ASSERT_TRUE(testing::succeeds(weight.read_tile(slice, tile, bytes, scratch)));
    for (std::int64_t i = 0; i < tile.elements(); ++i) {
      const std::int64_t place = slice.element(tile.row + i / tile.cols, tile.col + i % tile.cols);
      ASSERT_EQ(at(bytes, i), float_to_bf16(static_cast<float>(place)));
    }
  }
  EXPECT_FALSE(weight.coding_of(slice));
}

}  // namespace
}  // namespace microscale
