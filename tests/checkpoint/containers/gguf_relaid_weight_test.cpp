#include "checkpoint/containers/gguf_relaid_weight.hpp"

#include <gtest/gtest.h>

#include "checkpoint/model_builder.hpp"

namespace microscale {
namespace {

using namespace testing;

class GgufRelaid : public ::testing::Test {
 protected:
  // A model of one tensor; `base()` is it.
  void write(const TestTensor& tensor) {
    TestModel model;
    model.shards[0]["a.weight"] = tensor;
    model.write(folder_ / "in");
    sorted_ = take(open_quantized_folder(folder_ / "in"));
    view_ = dense_view_of(sorted_);
  }
  const DenseTensor& base() const { return *view_.find("a.weight"); }
  const ModelTensor& part() const { return *sorted_.model.find("a.weight"); }
  std::vector<float> values(const GgufRelaidWeight& weight, std::int64_t first,
                            std::int64_t count) const {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::vector<std::uint8_t> bytes(values.size() * static_cast<std::size_t>(weight.value_bytes()));
    take(weight.decode(first, count, bytes));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t bits = 0;
      if (weight.value_bytes() == 4) std::memcpy(&bits, bytes.data() + 4 * i, 4);
      if (weight.value_bytes() == 2) {
        std::memcpy(&bits, bytes.data() + 2 * i, 2);
        bits <<= 16;
      }
      std::memcpy(&values[i], &bits, 4);
    }
    return values;
  }

  const TemporaryFolder folder_;
  QuantizedFolder sorted_;
  DenseView view_;
};

TEST_F(GgufRelaid, rows_of_each_head_in_turn) {
  write(tensor_of(StoredType::bf16, {8, 2}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}));
  const GgufRelaidWeight weight(base(), part(), {.head_rows = 4, .type = StoredType::bf16});
  EXPECT_EQ(weight.facts().type, StoredType::bf16);
  EXPECT_EQ(values(weight, 0, 16),
            (std::vector<float>{0, 0, 2, 2, 1, 1, 3, 3, 4, 4, 6, 6, 5, 5, 7, 7}));
  EXPECT_EQ(values(weight, 3, 5), (std::vector<float>{2, 1, 1, 3, 3}));
  for (std::int64_t row = 0; row < 12; ++row)
    EXPECT_EQ(row_in_rotary_order(rotary_row(row, 6), 6), row);
}

TEST_F(GgufRelaid, one_is_added_in_fp32) {
  write(tensor_of(StoredType::bf16, {3}, {0.00390625f, -1, 2}));
  const GgufRelaidWeight weight(base(), part(), {.plus_one = true});
  EXPECT_EQ(weight.facts().copied, StoredType::f32);
  EXPECT_EQ(values(weight, 0, 3), (std::vector<float>{1.00390625f, 0, 3}));
}

TEST_F(GgufRelaid, f16_stays_f16_on_the_way_through_fp32) {
  write(tensor_of(StoredType::f16, {2, 1}, {1.5f, -0.25f}));
  const GgufRelaying turned{.head_rows = 2, .type = StoredType::f16};
  const GgufRelaidWeight weight(base(), part(), turned);
  EXPECT_EQ(weight.facts().type, StoredType::f32);
  EXPECT_EQ(weight.facts().copied, StoredType::f16);
  EXPECT_TRUE(weight.facts().exact);
  EXPECT_FALSE(turned.leaves(base()));
  EXPECT_TRUE((GgufRelaying{.type = StoredType::f16}.leaves(base())));
  EXPECT_FALSE((GgufRelaying{.type = StoredType::f32}.leaves(base())));
}

}  // namespace
}  // namespace microscale
