#include "checkpoint/decode_check.hpp"

#include <gtest/gtest.h>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::SmallModel;
using testing::succeeds;
using testing::TemporaryFolder;

class DecodeCheckTest : public ::testing::Test {
 protected:
  const QuantizedFolder& open(const SmallModel& model) {
    model.write(place_ / "in");
    folder_ = take(open_quantized_folder(place_ / "in"));
    return folder_;
  }
  Status decodable(const SmallModel& model) {
    const QuantizedFolder& folder = open(model);
    return check_decodable(folder, take(classify_model(folder.model)));
  }
  static DequantizeModelOptions as(DType dtype) {
    DequantizeModelOptions options;
    options.dtype = dtype;
    return options;
  }
  TemporaryFolder place_;
  QuantizedFolder folder_;
};

TEST_F(DecodeCheckTest, what_quantize_writes_can_be_decoded) {
  EXPECT_TRUE(succeeds(decodable(testing::small_llama(Format::mxfp4))));
}

TEST_F(DecodeCheckTest, a_damaged_layer_is_told_in_the_words_of_verify) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.remove("model.layers.0.mlp.down_proj.weight_scale");
  model.remove("model.layers.0.mlp.up_proj.weight_scale");
  const Status checked = decodable(model);
  EXPECT_TRUE(fails_with(checked, "its block scales (weight_scale) are missing"));
  EXPECT_TRUE(fails_with(checked, "(and 1 more problems; run verify)"));
}

TEST_F(DecodeCheckTest, values_are_held_against_the_type_they_are_written_in) {
  SmallModel model;
  model.add("m.weight_packed", StoredType::u8, {1, 16}, testing::Bytes(16, 0x77));
  model.add("m.weight_scale", StoredType::u8, {1, 1}, {127 + 14});
  const QuantizedFolder& folder = open(model);
  EXPECT_TRUE(succeeds(check_values(folder, as(DType::bf16), {})));
  EXPECT_TRUE(fails_with(check_values(folder, as(DType::f16), {}), "32 values exceed 65504"));
  std::int64_t last = 0, total = -1;
  EXPECT_TRUE(succeeds(check_values(folder, as(DType::f32),
                                    [&](std::int64_t done, std::int64_t all, std::string_view) {
                                      last = done;
                                      total = all;
                                      return true;
                                    })));
  EXPECT_EQ(last, total);
}

}  // namespace
}  // namespace microscale
