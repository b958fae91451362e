#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/containers/containers.hpp"

namespace microscale {
namespace {

using testing::CodedModel;
using testing::TemporaryFolder;

QuantizedFolder opened(const CodedModel& coded, const TemporaryFolder& place) {
  coded.model.write(place.path());
  return take(open_quantized_folder(place.path()));
}

TEST(DeepseekV4, experts_are_packed_fp4_and_the_rest_fp8_blocks) {
  const CodedModel coded = testing::deepseek_v4_model();
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  testing::expect_values(folder, coded);
  const LogicalTensor* expert = folder.find("layers.0.ffn.experts.1.w2");
  ASSERT_NE(expert, nullptr);
  EXPECT_EQ(expert->blocks()->format, Format::mxfp4);
  EXPECT_EQ(expert->shape, (std::vector<std::int64_t>{256, 96}));
  EXPECT_EQ(folder.find("layers.0.attn.wq_a")->weight->facts().description,
            "FP8 E4M3, one scale per 128 x 128 block");
}

TEST(DeepseekV4, integers_with_other_scales_are_left_alone) {
  CodedModel coded = testing::deepseek_v4_model();
  const std::string name = "layers.0.ffn.experts.0.w1";
  coded.model.at(name + ".scale") = {StoredType::f32, {96, 1}, testing::Bytes(96 * 4)};
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  EXPECT_EQ(folder.unusable, Findings());
  EXPECT_FALSE(folder.find(name + ".weight")->coded());
}

TEST(DeepseekV4, scales_of_another_shape_are_named) {
  CodedModel coded = testing::deepseek_v4_model();
  coded.model.at("layers.0.ffn.experts.0.w1.scale") = {
      StoredType::f8_e8m0, {96, 4}, testing::Bytes(96 * 4)};
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  ASSERT_EQ(folder.unusable.size(), 1u);
  EXPECT_NE(folder.unusable[0].message.find("have scales [96, 8], this is F8_E8M0 [96, 4]"),
            std::string::npos)
      << folder.unusable[0].message;
}

}  // namespace
}  // namespace microscale
