// Single files of ComfyUI: their layers stand for what the library makes of the weights, and what a
// family keeps is kept.
#include "checkpoint/comfyui_output.hpp"

#include <gtest/gtest.h>

#include "checkpoint/convert.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "model_builder.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using namespace testing;

const std::string prefix = "model.diffusion_model.";

TestTensors flux() {
  TestTensors tensors;
  unsigned seed = 0;
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t cols) {
    tensors[prefix + name + ".weight"] = random_tensor(StoredType::bf16, {rows, cols}, ++seed);
    tensors[prefix + name + ".bias"] = random_tensor(StoredType::bf16, {rows}, ++seed);
  };
  for (const std::string block : {"double_blocks.0.", "double_blocks.1."}) {
    add(block + "img_attn.qkv", 192, 64);
    add(block + "img_attn.proj", 64, 64);
    add(block + "img_mod.lin", 384, 64);
    add(block + "img_mlp.0", 256, 64);
    add(block + "img_mlp.2", 64, 256);
  }
  add("img_in", 64, 64);
  add("time_in.in_layer", 64, 256);
  add("final_layer.linear", 64, 64);
  return tensors;
}

class ComfyUiOutput : public ::testing::Test {
 protected:
  QuantizeModelOptions options(Format format = Format::nvfp4) const {
    QuantizeModelOptions options;
    options.input = folder_ / "in.safetensors";
    options.output = folder_ / "out.safetensors";
    options.container = Container::comfyui;
    options.format = format;
    options.threads = 2;
    return options;
  }

  Conversion converted(const TestTensors& tensors, const QuantizeModelOptions& options) {
    write_safetensors(folder_ / "in.safetensors", tensors);
    fs::remove(options.output);
    return convert_model(options);
  }

  // The values of a layer of the output.
  static std::vector<float> decoded(const QuantizedFolder& folder, const std::string& module) {
    const LogicalTensor* tensor = folder.find(module);
    if (!tensor || !tensor->weight) throw std::runtime_error(module + " is no quantized layer");
    const StoredWeight& weight = *tensor->weight;
    std::vector<std::uint8_t> bytes(
        static_cast<std::size_t>(weight.elements() * weight.value_bytes()));
    take(weight.decode(0, weight.elements(), bytes));
    std::vector<float> values(static_cast<std::size_t>(weight.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (weight.value_bytes() == 4) {
        std::memcpy(&values[i], bytes.data() + 4 * i, 4);
      } else {
        std::uint16_t half;
        std::memcpy(&half, bytes.data() + 2 * i, 2);
        values[i] = bf16_to_float(half);
      }
    }
    return values;
  }

  // What the library makes of a weight.
  static std::vector<float> expected(const TestTensor& weight, Format format) {
    const std::vector<float> values = values_of(weight);
    const std::int64_t rows = weight.shape[0], cols = weight.shape[1];
    const BlockTensor tensor =
        quantize({.input = {values.data(), DType::f32, rows, cols, cols}, .format = format});
    std::vector<float> out(values.size());
    dequantize(tensor.view(), {out.data(), DType::f32, rows, cols, cols});
    return out;
  }

  const TemporaryFolder folder_;
};

TEST_F(ComfyUiOutput, layers_are_what_the_library_makes_of_them) {
  const TestTensors tensors = flux();
  for (const Format format : {Format::nvfp4, Format::mxfp8_e4m3}) {
    converted(tensors, options(format));
    const QuantizedFolder out = take(open_quantized_folder(folder_ / "out.safetensors"));
    EXPECT_TRUE(out.unusable.empty());
    EXPECT_EQ(out.weights.size(), 8u);
    for (const std::string name : {"img_attn.qkv", "img_attn.proj", "img_mlp.0", "img_mlp.2"}) {
      const std::string module = prefix + "double_blocks.1." + name;
      EXPECT_EQ(decoded(out, module), expected(tensors.at(module + ".weight"), format)) << module;
      EXPECT_EQ(out.find(module)->blocks()->format, format);
    }
  }
}

TEST_F(ComfyUiOutput, what_the_family_keeps_is_kept_byte_for_byte) {
  const TestTensors tensors = flux();
  const Conversion conversion = converted(tensors, options());
  const QuantizedFolder out = take(open_quantized_folder(folder_ / "out.safetensors"));
  for (const auto& [name, tensor] : tensors) {
    const bool layer = name.ends_with(".weight") && name.find("double_blocks") != name.npos &&
                       name.find("img_mod") == name.npos;
    if (layer) continue;
    const ModelTensor* copy = out.model.find(name);
    ASSERT_NE(copy, nullptr) << name;
    std::string bytes(copy->entry->bytes(), '\0');
    take(out.model.shards[0].file.read_at(
        copy->entry->begin, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
    EXPECT_EQ(bytes, tensor.bytes) << name;
  }
  EXPECT_NE(conversion.plan.notices.back().find("a Flux model"), std::string::npos)
      << conversion.plan.notices.back();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().extension(), ".safetensors") << entry.path();
  }
}

TEST_F(ComfyUiOutput, a_name_that_is_spelled_out_overrules_the_family) {
  QuantizeModelOptions named = options();
  named.include = {prefix + "double_blocks.0.img_mod.lin", "*img_mlp*"};
  converted(flux(), named);
  const QuantizedFolder out = take(open_quantized_folder(folder_ / "out.safetensors"));
  EXPECT_EQ(out.weights.size(), 5u);
  EXPECT_NE(out.find(prefix + "double_blocks.0.img_mod.lin")->weight, nullptr);
}

TEST_F(ComfyUiOutput, other_models_go_by_the_generic_rule_with_a_sentence) {
  TestTensors tensors;
  tensors["blocks.0.attn.qkv.weight"] = random_tensor(StoredType::bf16, {96, 64}, 1);
  tensors["blocks.0.attn.odd.weight"] = random_tensor(StoredType::bf16, {72, 64}, 2);
  tensors["blocks.1.attn.qkv.weight"] = random_tensor(StoredType::f32, {96, 64}, 3);
  const Conversion conversion = converted(tensors, options());
  const auto notices = conversion.plan.notices;
  EXPECT_TRUE(std::any_of(notices.begin(), notices.end(), [](const std::string& notice) {
    return notice.find("none of the families") != std::string::npos;
  }));
  const QuantizedFolder out = take(open_quantized_folder(folder_ / "out.safetensors"));
  EXPECT_EQ(out.weights.size(), 2u);
  for (const TensorPlan& tensor : conversion.plan.tensors) {
    if (tensor.name.find("odd") == std::string::npos) continue;
    EXPECT_EQ(tensor.reason, "N = 72 is no multiple of 16");
  }
}

TEST_F(ComfyUiOutput, work_is_cut_anywhere_between_tiles_of_scales) {
  TestTensors tensors;
  tensors["blocks.0.ff.weight"] = random_tensor(StoredType::bf16, {624, 3072}, 1);
  std::string one;
  for (const int threads : {1, 3}) {
    QuantizeModelOptions some = options();
    some.threads = threads;
    converted(tensors, some);
    if (one.empty()) one = read_file(some.output);
    EXPECT_TRUE(read_file(some.output) == one);
  }
  const QuantizedFolder out = take(open_quantized_folder(folder_ / "out.safetensors"));
  EXPECT_TRUE(decoded(out, "blocks.0.ff") ==
              expected(tensors.at("blocks.0.ff.weight"), Format::nvfp4));
}

TEST_F(ComfyUiOutput, fp8_weights_with_scales_are_decoded_first) {
  TestTensors tensors;
  tensors["blocks.0.attn.qkv.weight"] = random_tensor(StoredType::f8_e4m3, {32, 64}, 1);
  tensors["blocks.0.attn.qkv.scale_weight"] = tensor_of(StoredType::f32, {}, {0.25f});
  tensors["head.head.weight"] = random_tensor(StoredType::bf16, {16, 64}, 2);
  converted(tensors, options(Format::mxfp8_e4m3));
  const QuantizedFolder out = take(open_quantized_folder(folder_ / "out.safetensors"));
  EXPECT_EQ(out.find("blocks.0.attn.qkv")->blocks()->format, Format::mxfp8_e4m3);
  EXPECT_EQ(out.model.find("blocks.0.attn.qkv.scale_weight"), nullptr);
}

TEST_F(ComfyUiOutput, fp8_casts_are_their_values_and_what_stays_becomes_bf16) {
  TestTensors tensors;
  for (const auto& [name, tensor] : flux()) {
    tensors[name] = random_tensor(StoredType::f8_e4m3, tensor.shape, 3);
    for (char& code : tensors[name].bytes) code = static_cast<char>(code & 0x3F);
  }
  converted(tensors, options());
  const QuantizedFolder out = take(open_quantized_folder(folder_ / "out.safetensors"));
  EXPECT_EQ(out.weights.size(), 8u);
  EXPECT_EQ(out.model.find(prefix + "img_in.weight")->entry->type, StoredType::bf16);
  EXPECT_EQ(out.model.find(prefix + "img_in.bias")->entry->type, StoredType::bf16);
}

TEST_F(ComfyUiOutput, convert_puts_codes_into_it_as_they_are) {
  for (const Format format : {Format::nvfp4, Format::mxfp8_e4m3}) {
    QuantizeModelOptions folder = options(format);
    folder.container = Container::compressed_tensors;
    folder.output = folder_ / ("quantized " + std::string(info(format).name));
    converted(flux(), folder);
    ConvertModelOptions into;
    into.input = folder.output;
    into.output = options().output;
    into.container = Container::comfyui;
    fs::remove(into.output);
    const ConvertedModel made = convert_model(into);
    EXPECT_EQ(made.weights, 8);
    EXPECT_EQ(made.searched, 0);
    EXPECT_TRUE(made.same_values());
    const QuantizedFolder out = take(open_quantized_folder(into.output));
    EXPECT_EQ(out.weights.size(), 8u);
    EXPECT_TRUE(out.unusable.empty());
  }
}

TEST_F(ComfyUiOutput, shards_of_a_folder_become_one_file) {
  TestModel model;
  model.shards.resize(2);
  for (const auto& [name, tensor] : flux()) {
    model.shards[name.find("blocks.0") == name.npos ? 0 : 1][name] = tensor;
  }
  model.other_files["readme.txt"] = "x";
  model.write(folder_ / "model");
  QuantizeModelOptions both = options();
  both.input = folder_ / "model";
  const Conversion conversion = convert_model(both);
  const std::string merged = read_file(both.output);
  converted(flux(), options());
  EXPECT_TRUE(read_file(options().output) == merged);
  EXPECT_TRUE(std::any_of(conversion.plan.notices.begin(), conversion.plan.notices.end(),
                          [](const std::string& notice) {
                            return notice.find("1 files beside the weights are not taken along") !=
                                   std::string::npos;
                          }));
}

TEST_F(ComfyUiOutput, an_infinite_weight_leaves_nothing) {
  TestTensors tensors = flux();
  tensors[prefix + "double_blocks.0.img_mlp.0.weight"].bytes[1] = '\x7F';
  tensors[prefix + "double_blocks.0.img_mlp.0.weight"].bytes[0] = '\x80';
  EXPECT_THROW(converted(tensors, options()), Error);
  EXPECT_FALSE(fs::exists(options().output));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace microscale
