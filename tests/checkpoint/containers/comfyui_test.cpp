#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/containers/containers.hpp"

namespace microscale {
namespace {

using testing::CodedModel;
using testing::TemporaryFolder;

const std::string block = "model.diffusion_model.blocks.0.";

QuantizedFolder opened(const CodedModel& coded, const TemporaryFolder& place) {
  coded.model.write(place.path());
  return take(open_quantized_folder(place.path()));
}

TEST(Comfyui, layers_are_known_by_marker_or_metadata) {
  for (const bool metadata : {false, true}) {
    const CodedModel coded = testing::comfyui_model(metadata);
    TemporaryFolder place;
    const QuantizedFolder folder = opened(coded, place);
    testing::expect_values(folder, coded);
    EXPECT_EQ(folder.weights.size(), 4u);
    EXPECT_EQ(folder.tensors.size(), 4u + 3 + 1) << "biases and one dense layer";
    const LogicalTensor* qkv = folder.find(block + "attn.qkv");
    EXPECT_EQ(qkv->shape, (std::vector<std::int64_t>{300, 320})) << "as the bias says";
    EXPECT_EQ(qkv->blocks()->format, Format::nvfp4);
    EXPECT_EQ(qkv->weight->facts().description, "ComfyUI's nvfp4");
    EXPECT_EQ(folder.find(block + "mlp.up")->blocks()->format, Format::mxfp8_e4m3);
    EXPECT_EQ(folder.find(block + "mlp.down")->weight->facts().description,
              "ComfyUI's FP8 E4M3, one scale per tensor");
  }
}

TEST(Comfyui, without_a_bias_padding_stays) {
  CodedModel coded = testing::comfyui_model();
  coded.model.remove(block + "attn.qkv.bias");
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  EXPECT_EQ(folder.find(block + "attn.qkv")->shape, (std::vector<std::int64_t>{304, 320}));
}

TEST(Comfyui, layers_that_cannot_be_decoded_are_named) {
  const auto problem = [](const std::function<void(testing::SmallModel&)>& change) {
    CodedModel coded = testing::comfyui_model();
    change(coded.model);
    TemporaryFolder place;
    const QuantizedFolder folder = opened(coded, place);
    EXPECT_EQ(folder.unusable.size(), 1u);
    EXPECT_EQ(folder.weights.size(), 3u);
    return folder.unusable.empty() ? "" : folder.unusable[0].message;
  };
  const auto says = [](const std::string& message, const std::string& phrase) {
    return message.find(phrase) != std::string::npos ? ::testing::AssertionSuccess()
                                                     : ::testing::AssertionFailure() << message;
  };
  const auto mark = [](testing::SmallModel& model, const std::string& text) {
    model.at(block + "attn.qkv.comfy_quant") = {StoredType::u8,
                                                {static_cast<std::int64_t>(text.size())},
                                                testing::Bytes(text.begin(), text.end())};
  };
  EXPECT_TRUE(says(problem([&](auto& model) { mark(model, "nvfp4"); }),
                   "the marker is no JSON object that names a format"));
  EXPECT_TRUE(says(problem([&](auto& model) { mark(model, R"({"format": "int4"})"); }),
                   "its format is 'int4'"));
  EXPECT_TRUE(
      says(problem([&](auto& model) { mark(model, R"({"format": "nvfp4", "convrot": true})"); }),
           "rotated before it was quantized"));
  EXPECT_TRUE(says(problem([&](auto& model) { mark(model, R"({"format": "mxfp8"})"); }),
                   "it is marked as mxfp8"));
  EXPECT_TRUE(says(problem([](auto& model) { model.remove(block + "attn.qkv.weight_scale"); }),
                   "its scales (weight_scale) are missing"));
  EXPECT_TRUE(says(problem([](auto& model) { model.remove(block + "attn.qkv.weight_scale_2"); }),
                   "weight_scale_2 (F32, one number) is missing"));
  EXPECT_TRUE(says(problem([](auto& model) {
                     model.at(block + "attn.qkv.weight_scale_2").bytes = testing::bytes_of(0.0f);
                   }),
                   "the scale of the tensor is 0"));
  EXPECT_TRUE(says(problem([](auto& model) {
                     model.at(block + "attn.qkv.weight_scale") = {
                         StoredType::f8_e4m3, {304, 20}, testing::Bytes(304 * 20)};
                   }),
                   "no such codes"));
}

}  // namespace
}  // namespace microscale
