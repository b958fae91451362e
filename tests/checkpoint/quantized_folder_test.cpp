#include "checkpoint/quantized_folder.hpp"

#include <gtest/gtest.h>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

using testing::bytes_of;
using testing::SmallModel;
using testing::TemporaryFolder;

constexpr const char* q_proj = "model.layers.0.self_attn.q_proj";

QuantizedFolder opened(const SmallModel& model, const TemporaryFolder& folder) {
  model.write(folder.path());
  return take(open_quantized_folder(folder.path()));
}

// The rule and message of the only problem there is.
std::string only_problem(const QuantizedFolder& folder) {
  EXPECT_EQ(folder.unusable.size(), 1u);
  return folder.unusable.empty() ? ""
                                 : folder.unusable[0].rule + " | " + folder.unusable[0].message;
}

TEST(QuantizedFolder, shows_modules_as_the_weights_they_stand_for) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    TemporaryFolder folder;
    const QuantizedFolder opened_folder = opened(testing::small_llama(format), folder);
    EXPECT_EQ(opened_folder.unusable, Findings());
    ASSERT_EQ(opened_folder.modules.size(), 6u);
    EXPECT_EQ(opened_folder.tensors.size(), 9u);
    const LogicalTensor* tensor = opened_folder.find(std::string(q_proj) + ".weight");
    ASSERT_NE(tensor, nullptr);
    ASSERT_NE(tensor->module, nullptr);
    EXPECT_EQ(tensor->module->format, format);
    EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{64, 64}));
    EXPECT_EQ(tensor->bytes(), 64u * 64 * static_cast<unsigned>(info(format).code_bits) / 8 +
                                   64u * 64 / static_cast<unsigned>(info(format).block) +
                                   (format == Format::nvfp4 ? 4 : 0));
    EXPECT_EQ(opened_folder.find(q_proj), tensor);
    EXPECT_EQ(opened_folder.find(std::string(q_proj) + ".weight_scale"), tensor);
    EXPECT_EQ(opened_folder.find("model.norm.weight")->module, nullptr);
    EXPECT_EQ(opened_folder.find("model.nothing"), nullptr);
  }
}

TEST(QuantizedFolder, holds_the_decode_multiplier_whichever_way_the_file_stores_it) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  TemporaryFolder folder;
  const float g = nvfp4_global_scale(0.125f);
  EXPECT_EQ(opened(model, folder).modules[0].multiplier, g);

  const std::string name = q_proj;
  model.rename(name + ".weight_packed", name + ".weight");
  model.rename(name + ".weight_global_scale", name + ".weight_scale_2");
  model.at(name + ".weight_scale_2") = {StoredType::f32, {}, bytes_of(g)};
  TemporaryFolder modelopt;
  const QuantizedFolder read = opened(model, modelopt);
  EXPECT_EQ(read.unusable, Findings());
  const QuantizedModule& module = *read.find(name)->module;
  EXPECT_FALSE(module.stores_divisor);
  EXPECT_EQ(module.multiplier, g);
}

TEST(QuantizedFolder, knows_divisors_that_a_multiplication_does_not_reproduce) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  TemporaryFolder ours, theirs;
  EXPECT_FALSE(opened(model, ours).find(q_proj)->module->must_divide);
  // 12 / 13440 and 12 * (1 / 13440) round differently in FP32.
  const float divisor = 2688.0f / 0.2f;
  ASSERT_NE(12.0f / divisor, 12.0f * (1.0f / divisor));
  model.at(std::string(q_proj) + ".weight_global_scale").bytes = bytes_of(divisor);
  EXPECT_TRUE(opened(model, theirs).find(q_proj)->module->must_divide);
}

TEST(QuantizedFolder, finds_parts_of_a_module_in_different_shards) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  const std::string scale = std::string(q_proj) + ".weight_scale";
  model.shards["other.safetensors"][scale] = model.at(scale);
  model.shards["model.safetensors"].erase(scale);
  TemporaryFolder folder;
  const QuantizedFolder read = opened(model, folder);
  EXPECT_EQ(read.unusable, Findings());
  EXPECT_EQ(read.modules.size(), 6u);
}

struct Damage {
  const char* what;
  void (*apply)(SmallModel& model);
  const char* problem;
};

class QuantizedFolderDamage : public ::testing::TestWithParam<Damage> {};

TEST_P(QuantizedFolderDamage, is_reported_with_its_place) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  GetParam().apply(model);
  TemporaryFolder folder;
  const QuantizedFolder read = opened(model, folder);
  EXPECT_EQ(only_problem(read), GetParam().problem);
  EXPECT_EQ(read.modules.size(), 5u);
  EXPECT_TRUE(
      testing::fails_with(open_whole_quantized_folder(folder.path()), read.unusable[0].message));
}

#define Q "model.layers.0.self_attn.q_proj"
const Damage damages[] = {
    {"no_codes", [](SmallModel& m) { m.remove(Q ".weight_packed"); },
     "missing-codes | model.safetensors: '" Q
     ".weight_scale': belongs to a quantized module whose codes "
     "(weight_packed or weight) are missing; quantize the model again or remove this tensor"},
    {"no_scale", [](SmallModel& m) { m.remove(Q ".weight_scale"); },
     "missing-scale | model.safetensors: '" Q
     ".weight_packed': its block scales (weight_scale) are "
     "missing; quantize the model again"},
    {"no_global_scale", [](SmallModel& m) { m.remove(Q ".weight_global_scale"); },
     "missing-global-scale | model.safetensors: '" Q ".weight_packed': its NVFP4 global scale "
     "(weight_global_scale) is missing; quantize the model again"},
    {"wrong_scale_type", [](SmallModel& m) { m.at(Q ".weight_scale").type = StoredType::i8; },
     "unknown-format | model.safetensors: '" Q
     ".weight_packed': codes of type U8 with scales of type I8 "
     "are no format known here (U8 with F8_E4M3: NVFP4, U8 with U8: MXFP4, F8_E4M3 with U8: "
     "MXFP8)"},
    {"scale_shape",
     [](SmallModel& m) {
       m.at(Q ".weight_scale").shape = {4, 64};
     },
     "wrong-shape | model.safetensors: '" Q
     ".weight_scale': the scales of a nvfp4 weight 64 x 64 are "
     "[64, 4], this is F8_E4M3 [4, 64]; quantize the model again"},
    {"code_rank",
     [](SmallModel& m) {
       m.at(Q ".weight_packed").shape = {1, 64, 32};
     },
     "wrong-shape | model.safetensors: '" Q ".weight_packed': codes of a linear weight have two "
     "dimensions, this is U8 [1, 64, 32]"},
    {"code_length",
     [](SmallModel& m) {
       m.at(Q ".weight_packed").shape = {512, 4};
     },
     "wrong-shape | model.safetensors: '" Q
     ".weight_packed': rows of 8 elements are no multiple of the "
     "nvfp4 block of 16; quantize the model again without this module"},
    {"global_scale_shape",
     [](SmallModel& m) {
       m.at(Q ".weight_global_scale") = {StoredType::f32, {2}, bytes_of(std::vector<float>{1, 1})};
     },
     "wrong-shape | model.safetensors: '" Q
     ".weight_global_scale': a global scale is F32 [1], this is F32 "
     "[2]; quantize the model again"},
    {"global_scale_zero",
     [](SmallModel& m) { m.at(Q ".weight_global_scale").bytes = bytes_of(0.0f); },
     "global-scale-value | model.safetensors: '" Q
     ".weight_global_scale': the global scale is 0, not a "
     "positive normal number; quantize the model again"},
    {"global_scale_infinite",
     [](SmallModel& m) { m.at(Q ".weight_global_scale").bytes = bytes_of(INFINITY); },
     "global-scale-value | model.safetensors: '" Q
     ".weight_global_scale': the global scale is inf, not a "
     "positive normal number; quantize the model again"},
    {"global_scale_negative",
     [](SmallModel& m) { m.at(Q ".weight_global_scale").bytes = bytes_of(-2.0f); },
     "global-scale-value | model.safetensors: '" Q
     ".weight_global_scale': the global scale is -2, not a "
     "positive normal number; quantize the model again"},
    {"both_weights", [](SmallModel& m) { m.add_floats(Q ".weight", {1}, {1.0f}); },
     "extra-tensor | model.safetensors: '" Q
     ".weight': the module has weight_packed too, so which weight "
     "counts is unclear; remove one of them"},
    {"zero_point", [](SmallModel& m) { m.add(Q ".weight_zero_point", StoredType::u8, {1}, {0}); },
     "extra-tensor | model.safetensors: '" Q
     ".weight_zero_point': these formats are symmetric and have no "
     "zero points; remove this tensor"},
    {"both_global_scales", [](SmallModel& m) { m.add_floats(Q ".weight_scale_2", {1}, {1.0f}); },
     "extra-tensor | model.safetensors: '" Q
     ".weight_scale_2': beside weight_packed the global scale is "
     "called weight_global_scale; rename or remove this tensor"},
};
#undef Q
INSTANTIATE_TEST_SUITE_P(Each, QuantizedFolderDamage, ::testing::ValuesIn(damages),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(QuantizedFolder, refuses_a_global_scale_for_mx) {
  SmallModel model = testing::small_llama(Format::mxfp4);
  model.add_floats(std::string(q_proj) + ".weight_global_scale", {1}, {1.0f});
  TemporaryFolder folder;
  EXPECT_EQ(only_problem(opened(model, folder)),
            "extra-tensor | model.safetensors: "
            "'model.layers.0.self_attn.q_proj.weight_global_scale': mxfp4 "
            "has no global scale; remove this tensor");
}

TEST(QuantizedFolder, takes_a_dense_folder_as_it_is) {
  SmallModel model;
  model.add_floats("a.weight", {2, 3}, std::vector<float>(6, 1.0f));
  model.add("empty", StoredType::i64, {0, 8}, {});
  model.add_floats("scalar", {}, {2.0f});
  TemporaryFolder folder;
  const QuantizedFolder read = opened(model, folder);
  EXPECT_TRUE(read.modules.empty());
  ASSERT_EQ(read.tensors.size(), 3u);
  EXPECT_EQ(read.find("a.weight")->elements(), 6);
  EXPECT_EQ(read.find("empty")->elements(), 0);
  EXPECT_EQ(read.find("scalar")->elements(), 1);
}

TEST(QuantizedFolder, lists_what_others_quantized_beside_its_own_modules) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.add("a.o_proj.weight", StoredType::i8, {4, 4}, testing::Bytes(16, 0x38));
  model.add_floats("a.o_proj.weight_scale", {4, 1}, {1, 1, 1, 1});
  model.add("a.w2.weight_packed", StoredType::i32, {4, 1}, testing::Bytes(16, 0x38));
  model.add("a.w2.weight_scale", StoredType::bf16, {4, 1}, testing::Bytes(8, 0x38));
  TemporaryFolder folder;
  const QuantizedFolder opened_folder = opened(model, folder);
  EXPECT_EQ(opened_folder.unusable, Findings());
  EXPECT_EQ(opened_folder.modules.size(), 6u);
  ASSERT_EQ(opened_folder.foreign.size(), 2u);
  EXPECT_EQ(opened_folder.foreign[0].name, "a.o_proj");
  EXPECT_EQ(opened_folder.foreign[0].scheme, "INT8 with scales of type F32");
  EXPECT_EQ(opened_folder.foreign[1].scheme, "packed integers with scales of type BF16");
  EXPECT_NE(opened_folder.find("a.o_proj.weight_scale"), nullptr);
  EXPECT_TRUE(
      testing::fails_with(open_whole_quantized_folder(folder.path()),
                          "'a.o_proj' is INT8 with scales of type F32, which is not decoded"));
}

}  // namespace
}  // namespace microscale
