// Weights that are quantized already, from every container into every other: whole models, read
// back by the readers of each, against values that are computed from their bytes here.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/containers/gguf_builder.hpp"
#include "checkpoint/journal.hpp"
#include "checkpoint/manifest.hpp"
#include "model_builder.hpp"

namespace microscale {
namespace {

using testing::CodedModel;
using testing::expect_error;
using testing::SmallModel;
using testing::succeeds;
using testing::TemporaryFolder;

ConvertModelOptions options_of(const std::filesystem::path& input,
                               const std::filesystem::path& output,
                               Container container = Container::modelopt) {
  ConvertModelOptions options;
  options.input = input;
  options.output = output;
  options.container = container;
  return options;
}

std::vector<std::string> findings_in(const std::filesystem::path& folder) {
  VerifyModelOptions options;
  options.input = folder;
  return verify_model(options);
}

// Of a logical tensor of the folder, as FP32.
std::vector<float> values_in(const std::filesystem::path& path, const std::string& name) {
  const QuantizedFolder folder = take(open_quantized_folder(path));
  const LogicalTensor* tensor = folder.find(name);
  if (!tensor) {
    ADD_FAILURE() << name << " is not there";
    return {};
  }
  PieceData data;
  EXPECT_TRUE(succeeds(read_piece(folder, {tensor, 0, tensor->elements()}, data)));
  return data.values;
}

// A Llama with NVFP4 and MXFP8 layers, as quantize writes it.
void write_llama(const std::filesystem::path& folder, bool mixed = true) {
  testing::TestModel model;
  model.shards.resize(2);
  unsigned seed = 1;
  for (const auto& [module, shape] : testing::llama_layers()) {
    model.shards[seed % 2][module + ".weight"] =
        testing::random_tensor(StoredType::bf16, {shape.first, shape.second}, seed);
    ++seed;
  }
  model.shards[0]["model.embed_tokens.weight"] =
      testing::random_tensor(StoredType::bf16, {64, 320}, 50);
  model.shards[1]["model.norm.weight"] = testing::random_tensor(StoredType::bf16, {320}, 51);
  model.shards[1]["lm_head.weight"] = testing::random_tensor(StoredType::bf16, {64, 320}, 52);
  model.config = R"({"model_type": "llama", "hidden_size": 320, "num_hidden_layers": 1,
                     "torch_dtype": "bfloat16"})";
  model.other_files["tokenizer.json"] = "{}";
  model.write(folder.string() + "_dense");
  QuantizeModelOptions options;
  options.input = folder.string() + "_dense";
  options.output = folder;
  if (mixed) options.use.push_back({"*.down_proj", WeightFormat::mxfp8});
  quantize_model(options);
}

// Codes and block scales of a layer, byte for byte, whatever they are called.
std::pair<std::string, std::string> payload(const testing::TestTensors& tensors,
                                            const std::string& module) {
  const auto packed = tensors.find(module + ".weight_packed");
  const auto& codes = packed != tensors.end() ? packed->second : tensors.at(module + ".weight");
  return {codes.bytes, tensors.at(module + ".weight_scale").bytes};
}

TEST(ConvertModel, compressed_tensors_to_modelopt_and_back_keeps_every_byte_of_codes_and_scales) {
  TemporaryFolder place;
  write_llama(place / "ct");
  const ConvertedModel there = convert_model(options_of(place / "ct", place / "mo"));
  const ConvertedModel back =
      convert_model(options_of(place / "mo", place / "ct2", Container::compressed_tensors));
  EXPECT_EQ(there.weights, 7);
  EXPECT_EQ(there.cast, 0);
  EXPECT_TRUE(there.same_values());
  EXPECT_NE(there.hash_after, 0u);
  EXPECT_EQ(back.hash_after, there.hash_before);
  EXPECT_EQ(findings_in(place / "mo"), std::vector<std::string>());
  EXPECT_EQ(findings_in(place / "ct2"), std::vector<std::string>());
  const auto first = testing::read_tensors(place / "ct"),
             middle = testing::read_tensors(place / "mo");
  for (const auto& [module, shape] : testing::llama_layers()) {
    EXPECT_EQ(payload(first, module), payload(middle, module)) << module;
    EXPECT_EQ(values_in(place / "mo", module + ".weight"),
              values_in(place / "ct", module + ".weight"));
  }
  EXPECT_TRUE(middle.contains("model.layers.0.mlp.up_proj.weight_scale_2"));
  EXPECT_EQ(testing::read_tensors(place / "ct2"), first);
  EXPECT_EQ(testing::read_file(place / "mo" / "tokenizer.json"), "{}");
  EXPECT_TRUE(std::filesystem::exists(place / "mo" / manifest_name));
  EXPECT_FALSE(std::filesystem::exists(place / "mo" / journal_name));
}

TEST(ConvertModel, reads_comfyui_nibbles_tiles_and_paddings) {
  TemporaryFolder place;
  const CodedModel coded = testing::comfyui_model();
  coded.model.write(place / "comfy");
  std::filesystem::rename(place / "comfy" / "model.safetensors", place / "flux.safetensors");
  for (const Container container : {Container::compressed_tensors, Container::modelopt}) {
    const auto out = place / std::string(to_string(container));
    const ConvertedModel converted =
        convert_model(options_of(place / "flux.safetensors", out, container));
    EXPECT_EQ(converted.weights, 3);
    EXPECT_TRUE(converted.same_values());
    for (const auto& [name, values] : coded.values) {
      if (name.ends_with("mlp.down.weight")) continue;  // FP8, written as BF16
      EXPECT_EQ(values_in(out, name), values) << name;
    }
    EXPECT_EQ(testing::read_tensors(out).at("model.diffusion_model.blocks.0.mlp.down.weight").type,
              StoredType::bf16);
  }
}

TEST(ConvertModel, comfyui_and_back_is_the_same_bytes_but_for_rows_that_it_pads) {
  TemporaryFolder place;
  SmallModel model;
  const std::string block = "model.diffusion_model.blocks.0.";
  model.add_quantized(block + "attn.qkv", Format::nvfp4, 320, 256, testing::gaussian(320 * 256, 1));
  model.add_quantized(block + "mlp.up", Format::mxfp8_e4m3, 160, 256,
                      testing::gaussian(160 * 256, 2));
  model.add_quantized(block + "mlp.odd", Format::nvfp4, 100, 256, testing::gaussian(100 * 256, 3));
  model.add_floats("model.diffusion_model.img_in.weight", {64, 64}, testing::gaussian(4096, 4));
  // What engines do with inputs, and with a cache, ComfyUI is not told.
  model.config = R"({"quantization_config": {"quant_method": "compressed-tensors",
      "format": "mxfp8-quantized", "ignore": [],
      "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false,
                          "symmetric": true},
      "config_groups": {"group_0": {"targets": ["Linear"],
        "weights": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32,
                    "symmetric": true, "dynamic": false, "scale_dtype": "torch.uint8"},
        "input_activations": {"num_bits": 8, "type": "float", "strategy": "group",
                              "group_size": 32, "symmetric": true, "dynamic": true,
                              "scale_dtype": "torch.uint8"}}}}})";
  model.write(place / "ct");
  const auto file = place / "out.safetensors";
  const ConvertedModel there = convert_model(options_of(place / "ct", file, Container::comfyui));
  EXPECT_EQ(there.weights, 2);
  EXPECT_TRUE(there.same_values());
  for (const char* name : {"attn.qkv.weight", "mlp.up.weight"}) {
    EXPECT_EQ(values_in(file, block + name), values_in(place / "ct", block + name)) << name;
  }
  const ConvertedModel back =
      convert_model(options_of(file, place / "back", Container::compressed_tensors));
  EXPECT_EQ(back.hash_after, there.hash_before);
  auto found = testing::read_tensors(place / "back"), wanted = testing::read_tensors(place / "ct");
  EXPECT_EQ(found.at(block + "mlp.odd.weight").type, StoredType::bf16);
  const auto is_odd = [](const auto& entry) {
    return entry.first.find("odd") != std::string::npos;
  };
  std::erase_if(found, is_odd);
  std::erase_if(wanted, is_odd);
  EXPECT_EQ(found, wanted);
}

TEST(ConvertModel, what_has_no_blocks_is_said_and_refused_where_it_would_be_rounded) {
  TemporaryFolder place;
  testing::comfyui_model().model.write(place / "comfy");
  ConvertModelOptions options = options_of(place / "comfy", place / "out");
  const ConversionPlan plan = plan_convert_model(options);
  const auto said = std::find_if(plan.notices.begin(), plan.notices.end(), [](const auto& notice) {
    return notice.find("mlp.down.weight") != std::string::npos;
  });
  ASSERT_NE(said, plan.notices.end());
  EXPECT_NE(said->find("is written as BF16 values"), std::string::npos) << *said;
  options.exact = true;
  expect_error(ErrorCode::bad_input, "which --exact rules out", [&] { convert_model(options); });
  EXPECT_FALSE(std::filesystem::exists(place / "out"));
}

TEST(ConvertModel, experts_of_gpt_oss_keep_their_codes_one_by_one) {
  TemporaryFolder place;
  const CodedModel coded = testing::gpt_oss_model();
  coded.model.write(place / "oss");
  const ConvertedModel converted =
      convert_model(options_of(place / "oss", place / "ct", Container::compressed_tensors));
  EXPECT_EQ(converted.weights, 9);
  EXPECT_EQ(converted.cast, 0);
  EXPECT_TRUE(converted.same_values());
  EXPECT_EQ(findings_in(place / "ct"), std::vector<std::string>());
  // Dense [E, K, N]; gate and up are every other output feature.
  const auto& gate_up = coded.values.at("model.layers.0.mlp.experts.gate_up_proj");
  for (std::int64_t expert = 0; expert < 3; ++expert) {
    for (const std::int64_t odd : {0, 1}) {
      std::vector<float> wanted;
      for (std::int64_t row = 0; row < 96; ++row) {
        for (std::int64_t col = 0; col < 64; ++col) {
          wanted.push_back(
              gate_up[static_cast<std::size_t>((expert * 64 + col) * 192 + row * 2 + odd)]);
        }
      }
      EXPECT_EQ(values_in(place / "ct", "model.layers.0.mlp.experts." + std::to_string(expert) +
                                            (odd ? ".up_proj.weight" : ".gate_proj.weight")),
                wanted);
    }
  }
}

TEST(ConvertModel, mxfp4_becomes_nvfp4_with_the_same_values_where_a_container_has_no_mxfp4) {
  TemporaryFolder place;
  testing::gpt_oss_model().model.write(place / "oss");
  ConvertModelOptions options = options_of(place / "oss", place / "mo");
  options.exact = true;
  const ConvertedModel cast = convert_model(options);
  EXPECT_EQ(cast.weights, 9);
  EXPECT_EQ(cast.cast, cast.blocks);
  EXPECT_EQ(cast.searched, 0);
  EXPECT_TRUE(cast.same_values());
  EXPECT_EQ(findings_in(place / "mo"), std::vector<std::string>());
  // The same through MXFP4 of compressed-tensors, and NVFP4 of the same container.
  convert_model(options_of(place / "oss", place / "ct", Container::compressed_tensors));
  options = options_of(place / "ct", place / "ct4", Container::compressed_tensors);
  options.to_nvfp4 = true;
  EXPECT_EQ(convert_model(options).hash_after, cast.hash_after);
  for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
    const std::string name = std::string("model.layers.0.mlp.experts.2.") + part + ".weight";
    EXPECT_EQ(values_in(place / "ct4", name), values_in(place / "ct", name));
    EXPECT_EQ(values_in(place / "mo", name), values_in(place / "ct", name));
  }
}

// A gate whose scale is out of reach beside that of its up.
TEST(ConvertModel, blocks_out_of_reach_are_searched_and_counted_or_refused) {
  TemporaryFolder place;
  CodedModel coded = testing::gpt_oss_model();
  auto& scales = coded.model.at("model.layers.0.mlp.experts.gate_up_proj_scales").bytes;
  scales[0] = 90;
  auto& blocks = coded.model.at("model.layers.0.mlp.experts.gate_up_proj_blocks").bytes;
  blocks[0] = 0x33;
  coded.model.write(place / "oss");
  ConvertModelOptions options = options_of(place / "oss", place / "mo");
  const ConvertedModel converted = convert_model(options);
  EXPECT_GE(converted.searched, 1);
  EXPECT_LE(converted.searched, 2);
  EXPECT_GT(converted.searched_mse, 0);
  EXPECT_FALSE(converted.same_values());
  EXPECT_EQ(findings_in(place / "mo"), std::vector<std::string>());
  options.exact = true;
  options.output = place / "exact";
  expect_error(ErrorCode::bad_input, "experts.0.gate_proj' have scales too small for NVFP4",
               [&] { convert_model(options); });
  EXPECT_FALSE(std::filesystem::exists(place / "exact"));
}

TEST(ConvertModel, takes_blocks_of_gguf) {
  TemporaryFolder place;
  const std::int64_t rows = 64, cols = 128;
  testing::Bytes nvfp4 = testing::random_bytes(rows * cols / 64 * 36, 7, 0x10, 0x77);
  testing::Bytes mxfp4 = testing::random_bytes(rows * cols / 32 * 17, 8, 0x70, 0x78);
  const auto text = [](const testing::Bytes& bytes) {
    return std::string(bytes.begin(), bytes.end());
  };
  testing::GgufBuilder file;
  file.value("general.architecture", testing::gguf_text("other"))
      .tensor("layers.0.up_proj.weight", GgufType::nvfp4, {128, 64}, text(nvfp4))
      .tensor("layers.0.up_proj.scale", GgufType::f32, {1}, testing::float_bytes({0.375f}))
      .tensor("layers.0.down_proj.weight", GgufType::mxfp4, {128, 64}, text(mxfp4))
      .tensor("layers.0.norm.weight", GgufType::f32, {128},
              testing::float_bytes(std::vector<float>(128, 1.0f)));
  testing::write_file(place / "model.gguf", file.file());
  const ConvertedModel converted =
      convert_model(options_of(place / "model.gguf", place / "ct", Container::compressed_tensors));
  EXPECT_EQ(converted.weights, 2);
  EXPECT_TRUE(converted.same_values());
  ConvertModelOptions cast = options_of(place / "model.gguf", place / "mo");
  cast.exact = true;
  EXPECT_TRUE(convert_model(cast).same_values());
  for (const char* name : {"layers.0.up_proj.weight", "layers.0.down_proj.weight"}) {
    const auto wanted = values_in(place / "model.gguf", name),
               found = values_in(place / "ct", name);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      // (code * scale) * tensor's scale there, code * (scale * tensor's scale) here.
      ASSERT_NEAR(found[i], wanted[i], std::abs(wanted[i]) * 0x1p-22f) << name << " " << i;
    }
  }
}

TEST(ConvertModel, scales_of_inputs_go_along_with_their_reciprocals) {
  TemporaryFolder place;
  write_llama(place / "ct", false);
  std::string numbers = "{";
  for (const auto& [module, shape] : testing::llama_layers()) {
    numbers += (numbers.size() > 1 ? ", \"" : "\"") + module + "\": 12.5";
  }
  testing::write_file(place / "scales.json", numbers + "}");
  QuantizeModelOptions quantize;
  quantize.input = place.path() / "ct_dense";
  quantize.output = place / "w4a4";
  quantize.input_scales = place / "scales.json";
  quantize_model(quantize);
  convert_model(options_of(place / "w4a4", place / "mo"));
  const auto tensors = testing::read_tensors(place / "mo");
  const auto& scale = tensors.at("model.layers.0.mlp.up_proj.input_scale").bytes;
  float number = 0;
  std::memcpy(&number, scale.data(), 4);
  EXPECT_EQ(number, 12.5f / 2688);
  const auto config = nlohmann::json::parse(testing::read_file(place / "mo" / "config.json"));
  EXPECT_EQ(config["quantization_config"]["quant_algo"], "NVFP4");
  convert_model(options_of(place / "mo", place / "back", Container::compressed_tensors));
  auto found = testing::read_tensors(place / "back"),
       wanted = testing::read_tensors(place / "w4a4");
  for (const auto& [module, shape] : testing::llama_layers()) {
    float divisor = 0;
    std::memcpy(&divisor, found.at(module + ".input_global_scale").bytes.data(), 4);
    EXPECT_NEAR(divisor, 2688 / 12.5f, 1e-4f);  // the reciprocal of a rounded reciprocal
    found.erase(module + ".input_global_scale");
    wanted.erase(module + ".input_global_scale");
  }
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(findings_in(place / "back"), std::vector<std::string>());
}

TEST(ConvertModel, nan_and_what_is_not_quantized_are_refused) {
  TemporaryFolder place;
  write_llama(place / "ct");
  expect_error(ErrorCode::bad_input, "has codes that modelopt holds",
               [&] { convert_model(options_of(place.path() / "ct_dense", place / "out")); });
  CodedModel coded = testing::gpt_oss_model();
  coded.model.at("model.layers.0.mlp.experts.down_proj_scales").bytes[100] = 255;
  coded.model.write(place / "oss");
  expect_error(ErrorCode::bad_input, "convert: tensor 'model.layers.0.mlp.experts.down_proj'",
               [&] { convert_model(options_of(place / "oss", place / "out")); });
  EXPECT_FALSE(std::filesystem::exists(place / "out"));
  expect_error(ErrorCode::bad_input, "convert: tensor 'model.layers.0.mlp.experts.down_proj'", [&] {
    convert_model(options_of(place / "oss", place / "out", Container::compressed_tensors));
  });
  expect_error(ErrorCode::invalid_argument,
               "convert: ", [&] { convert_model(options_of(place / "ct", place / "ct")); });
  testing::fp8_llama().model.write(place / "fp8");
  expect_error(ErrorCode::bad_input, "microscale quantize` makes such weights",
               [&] { convert_model(options_of(place / "fp8", place / "out")); });
}

TEST(ConvertModel, an_interrupted_run_is_resumed_to_the_same_bytes) {
  TemporaryFolder place;
  write_llama(place / "ct");
  const ConvertedModel whole = convert_model(options_of(place / "ct", place / "whole"));
  ConvertModelOptions options = options_of(place / "ct", place / "out");
  options.threads = 1;
  int calls = 0;
  expect_error(ErrorCode::interrupted, "--resume", [&] {
    convert_model(options,
                  [&](std::int64_t, std::int64_t, std::string_view) { return ++calls < 14; });
  });
  options.resume = true;
  const ConvertedModel resumed = convert_model(options);
  EXPECT_EQ(resumed.hash_before, whole.hash_before);
  EXPECT_EQ(resumed.hash_after, whole.hash_after);
  EXPECT_EQ(resumed.weights, whole.weights);
  EXPECT_EQ(testing::read_folder(place / "out"), testing::read_folder(place / "whole"));
  EXPECT_TRUE(convert_model(options).already_done);
  options.exact = true;
  expect_error(ErrorCode::invalid_argument, "keep codes", [&] { convert_model(options); });
}

TEST(ConvertModel, a_plan_says_what_becomes_of_each_tensor) {
  TemporaryFolder place;
  testing::gpt_oss_model().model.write(place / "oss");
  const ConversionPlan plan = plan_convert_model(options_of(place / "oss", place / "out"));
  std::size_t kept = 0;
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.format == "nvfp4") ++kept;
  }
  EXPECT_EQ(kept, 2u);
  EXPECT_FALSE(std::filesystem::exists(place / "out"));
}

}  // namespace
}  // namespace microscale
