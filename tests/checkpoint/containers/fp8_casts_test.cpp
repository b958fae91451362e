#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/containers/containers.hpp"

namespace microscale {
namespace {

using testing::SmallModel;
using testing::TemporaryFolder;

const std::string block = "model.diffusion_model.double_blocks.0.img_attn.";

// All 254 codes of E4M3 that are numbers, as a weight; and a bias.
SmallModel cast_model() {
  SmallModel model;
  testing::Bytes codes;
  for (int i = 0; i < 254; ++i) codes.push_back(static_cast<std::uint8_t>(i < 127 ? i : i + 1));
  model.add(block + "proj.weight", StoredType::f8_e4m3, {2, 127}, codes);
  model.add(block + "proj.bias", StoredType::f8_e5m2, {3}, {0x3C, 0xC0, 0x01});
  model.add("model.diffusion_model.img_in.weight", StoredType::f8_e4m3, {1, 2}, {0x38, 0xB0});
  model.add_floats("model.diffusion_model.double_blocks.0.img_attn.norm.query_norm.scale", {1},
                   {1});
  return model;
}

QuantizedFolder opened(const SmallModel& model, const TemporaryFolder& place) {
  model.write(place.path());
  return take(open_quantized_folder(place.path()));
}

std::vector<float> values(const StoredWeight& weight) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(weight.elements() * 2));
  take(weight.decode(0, weight.elements(), bytes));
  std::vector<float> values;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    values.push_back(bf16_to_float(static_cast<std::uint16_t>(bytes[i] | bytes[i + 1] << 8)));
  }
  return values;
}

TEST(Fp8Casts, every_code_is_its_value) {
  TemporaryFolder place;
  const QuantizedFolder folder = opened(cast_model(), place);
  EXPECT_TRUE(folder.unusable.empty());
  ASSERT_EQ(folder.weights.size(), 3u);
  const StoredWeight& weight = *folder.find(block + "proj")->weight;
  EXPECT_EQ(weight.facts().description, "FP8 E4M3, cast without a scale");
  const std::vector<float> got = values(weight);
  for (int i = 0; i < 254; ++i) {
    const int code = i < 127 ? i : i + 1, exponent = code >> 3 & 15, fraction = code & 7;
    const double size =
        exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    EXPECT_EQ(got[static_cast<std::size_t>(i)], code & 0x80 ? -size : size) << code;
  }
  EXPECT_EQ(values(*folder.find(block + "proj.bias")->weight),
            (std::vector<float>{1, -2, std::ldexp(1.0f, -16)}));
}

TEST(Fp8Casts, are_none_where_there_is_a_scale_or_no_diffusion_model) {
  for (const char* name : {"scaled_fp8", "model.diffusion_model.x.weight_scale"}) {
    SmallModel model = cast_model();
    model.add(name, StoredType::f32, {}, testing::bytes_of(1.0f));
    TemporaryFolder place;
    EXPECT_TRUE(opened(model, place).weights.empty()) << name;
  }
  SmallModel language;
  language.add("model.layers.0.self_attn.q_proj.weight", StoredType::f8_e4m3, {1, 2}, {1, 2});
  language.add("model.layers.1.self_attn.q_proj.weight", StoredType::f8_e4m3, {1, 2}, {1, 2});
  TemporaryFolder place;
  EXPECT_TRUE(opened(language, place).weights.empty());
}

}  // namespace
}  // namespace microscale
