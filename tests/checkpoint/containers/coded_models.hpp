// Small models in every container, made byte by byte, with the values that their codes stand for
// computed here and not by the code under test.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/small_model.hpp"
#include "checkpoint/weight_reader.hpp"
#include "formats/half.hpp"

namespace microscale::testing {

/// Of a byte of OCP FP8 E4M3, from its definition.
inline float e4m3_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::nanf("");
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return static_cast<float>(code & 0x80 ? -magnitude : magnitude);
}

inline float e5m2_value(std::uint8_t code) {
  const int exponent = code >> 2 & 31, mantissa = code & 3;
  if (exponent == 31) return mantissa ? std::nanf("") : (code & 0x80 ? -INFINITY : INFINITY);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -16) : std::ldexp(4 + mantissa, exponent - 17);
  return static_cast<float>(code & 0x80 ? -magnitude : magnitude);
}

inline float e2m1_value(std::uint8_t code) {
  constexpr float magnitudes[]{0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

inline float e8m0_value(std::uint8_t byte) { return std::ldexp(1.0f, byte - 127); }

/// Bytes whose E4M3 values are finite and mostly of middling size.
inline Bytes random_e4m3(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>((random() & 0x80) | (random() % 0x7F));
  }
  return bytes;
}

inline Bytes random_bytes(std::int64_t count, unsigned seed, unsigned least = 0,
                          unsigned most = 255) {
  std::mt19937 random(seed);
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(least + random() % (most - least + 1));
  }
  return bytes;
}

/// A model and, of each weight that is computed, the values that must come out.
struct CodedModel {
  SmallModel model;
  std::map<std::string, std::vector<float>> values;
};

/// How the scales of an FP8 model lie. 0 rows or columns: all of them.
struct Fp8Scheme {
  std::string name = "weight_scale_inv";
  StoredType type = StoredType::f32;
  std::int64_t block_rows = 128, block_cols = 128;
  StoredType codes = StoredType::f8_e4m3;
  bool vector = false;            // [N] instead of [N, 1]; [] instead of [1, 1]
  bool in_another_shard = false;  // than the codes
};

/// Scales of a type as bytes and as the numbers that these bytes are.
inline std::pair<Bytes, std::vector<float>> random_scales(StoredType type, std::int64_t count,
                                                          unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes;
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = 0x1p-12f * (1.0f + static_cast<float>(random() >> 8) * 0x1p-24f) *
                        static_cast<float>(1 << random() % 3);
    std::uint8_t raw[4];
    std::size_t size = 2;
    if (type == StoredType::f32) {
      std::memcpy(raw, &value, size = 4);
      values.push_back(value);
    } else if (type == StoredType::bf16 || type == StoredType::f16) {
      const bool bf16 = type == StoredType::bf16;
      const std::uint16_t bits = bf16 ? float_to_bf16(value) : float_to_f16(value);
      std::memcpy(raw, &bits, size);
      values.push_back(bf16 ? bf16_to_float(bits) : f16_to_float(bits));
    } else {
      raw[0] = static_cast<std::uint8_t>(113 + random() % 5);
      size = 1;
      values.push_back(e8m0_value(raw[0]));
    }
    bytes.insert(bytes.end(), raw, raw + size);
  }
  return {bytes, values};
}

inline void add_fp8(CodedModel& coded, const std::string& module, std::int64_t rows,
                    std::int64_t cols, const Fp8Scheme& scheme, unsigned seed) {
  const std::int64_t block_rows = scheme.block_rows ? scheme.block_rows : rows;
  const std::int64_t block_cols = scheme.block_cols ? scheme.block_cols : cols;
  const std::int64_t grid_rows = (rows + block_rows - 1) / block_rows;
  const std::int64_t grid_cols = (cols + block_cols - 1) / block_cols;
  const bool e4m3 = scheme.codes == StoredType::f8_e4m3;
  const Bytes codes =
      e4m3 ? random_e4m3(rows * cols, seed) : random_bytes(rows * cols, seed, 0, 99);
  const auto [scales, numbers] = random_scales(scheme.type, grid_rows * grid_cols, seed + 1000);
  std::vector<float> values(codes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / cols, col = static_cast<std::int64_t>(i) % cols;
    const auto scale = static_cast<std::size_t>(row / block_rows * grid_cols + col / block_cols);
    values[i] = (e4m3 ? e4m3_value(codes[i]) : e5m2_value(codes[i])) * numbers[scale];
  }
  std::vector<std::int64_t> shape{grid_rows, grid_cols};
  if (scheme.vector) shape.pop_back();
  if (scheme.vector && grid_rows == 1) shape.clear();
  coded.model.add(module + ".weight", scheme.codes, {rows, cols}, codes, "model-1.safetensors");
  coded.model.add(module + "." + scheme.name, scheme.type, shape, scales,
                  scheme.in_another_shard ? "model-2.safetensors" : "model-1.safetensors");
  coded.values[module + ".weight"] = std::move(values);
}

/// The linear layers of a Llama 320 wide; neither 192 nor 320 is a multiple of 128.
inline std::vector<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>> llama_layers() {
  const std::string layer = "model.layers.0.";
  return {{layer + "self_attn.q_proj", {192, 320}}, {layer + "self_attn.k_proj", {192, 320}},
          {layer + "self_attn.v_proj", {192, 320}}, {layer + "self_attn.o_proj", {320, 192}},
          {layer + "mlp.gate_proj", {448, 320}},    {layer + "mlp.up_proj", {448, 320}},
          {layer + "mlp.down_proj", {320, 448}}};
}

/// What is dense in every model: embedding and norm.
inline void add_dense_parts(SmallModel& model, std::int64_t width) {
  model.add_floats("model.embed_tokens.weight", {16, width}, gaussian(16 * width, 77),
                   "model-1.safetensors");
  model.add_floats("model.norm.weight", {width},
                   std::vector<float>(static_cast<std::size_t>(width), 1.0f),
                   "model-2.safetensors");
}

inline CodedModel fp8_llama(const Fp8Scheme& scheme = {}) {
  CodedModel coded;
  unsigned seed = 1;
  for (const auto& [module, shape] : llama_layers()) {
    add_fp8(coded, module, shape.first, shape.second, scheme, seed++);
  }
  add_dense_parts(coded.model, 320);
  coded.model.config =
      R"({"model_type": "llama", "hidden_size": 320, "torch_dtype": "bfloat16",
          "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})";
  if (scheme.block_rows != 128 || scheme.block_cols != 128) {
    coded.model.config = R"({"model_type": "llama", "hidden_size": 320,
                             "quantization_config": {"quant_method": "fp8"}})";
  }
  return coded;
}

/// Blocks and scales [experts, outputs, inputs / 32] of gpt-oss, dense [experts, inputs, outputs].
inline void add_gpt_oss_experts(CodedModel& coded, const std::string& name, std::int64_t experts,
                                std::int64_t outputs, std::int64_t inputs, unsigned seed) {
  const Bytes codes = random_bytes(experts * outputs * inputs / 2, seed);
  const Bytes scales = random_bytes(experts * outputs * inputs / 32, seed + 1, 118, 124);
  std::vector<float> values(static_cast<std::size_t>(experts * outputs * inputs));
  for (std::int64_t row = 0; row < experts * outputs; ++row) {
    for (std::int64_t input = 0; input < inputs; ++input) {
      const auto at = static_cast<std::size_t>(row * inputs + input);
      const std::uint8_t code = input % 2 ? codes[at / 2] >> 4 : codes[at / 2] & 15;
      const std::int64_t place = (row / outputs * inputs + input) * outputs + row % outputs;
      values[static_cast<std::size_t>(place)] = e2m1_value(code) * e8m0_value(scales[at / 32]);
    }
  }
  coded.model.add(name + "_blocks", StoredType::u8, {experts, outputs, inputs / 32, 16}, codes,
                  "model-1.safetensors");
  coded.model.add(name + "_scales", StoredType::u8, {experts, outputs, inputs / 32}, scales,
                  "model-2.safetensors");
  coded.values[name] = std::move(values);
}

/// A layer of gpt-oss 64 wide with experts of 96.
inline CodedModel gpt_oss_model(std::int64_t experts = 3) {
  CodedModel coded;
  const std::string layer = "model.layers.0.";
  add_gpt_oss_experts(coded, layer + "mlp.experts.gate_up_proj", experts, 192, 64, 11);
  add_gpt_oss_experts(coded, layer + "mlp.experts.down_proj", experts, 64, 96, 13);
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, unsigned seed) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    coded.model.add_floats(layer + name, shape, gaussian(count, seed), "model-1.safetensors");
  };
  add("mlp.experts.gate_up_proj_bias", {experts, 192}, 21);
  add("mlp.experts.down_proj_bias", {experts, 64}, 22);
  add("mlp.router.weight", {experts, 64}, 23);
  add("mlp.router.bias", {experts}, 24);
  for (const std::string name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    add("self_attn." + name + ".weight", {64, 64}, 25);
  }
  add_dense_parts(coded.model, 64);
  coded.model.config =
      R"({"model_type": "gpt_oss", "hidden_size": 64, "architectures": ["GptOssForCausalLM"],
          "quantization_config": {"quant_method": "mxfp4",
          "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}})";
  return coded;
}

/// A layer of DeepSeek V4: attention in FP8 blocks, experts in packed FP4, both with E8M0 scales.
inline CodedModel deepseek_v4_model() {
  CodedModel coded;
  const Fp8Scheme blocks{.name = "scale", .type = StoredType::f8_e8m0};
  add_fp8(coded, "layers.0.attn.wq_a", 192, 256, blocks, 51);
  add_fp8(coded, "layers.0.attn.wo_b", 256, 192, blocks, 52);
  unsigned seed = 60;
  for (const std::string expert : {"0", "1"}) {
    for (const std::string name : {"w1", "w2", "w3"}) {
      const std::int64_t rows = name == "w2" ? 256 : 96, cols = name == "w2" ? 96 : 256;
      const Bytes codes = random_bytes(rows * cols / 2, seed++);
      const Bytes scales = random_bytes(rows * cols / 32, seed++, 116, 122);
      std::vector<float> values(static_cast<std::size_t>(rows * cols));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint8_t code = i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
        values[i] = e2m1_value(code) * e8m0_value(scales[i / 32]);
      }
      const std::string module = "layers.0.ffn.experts." + expert + "." + name;
      coded.model.add(module + ".weight", StoredType::i8, {rows, cols / 2}, codes,
                      "model-1.safetensors");
      coded.model.add(module + ".scale", StoredType::f8_e8m0, {rows, cols / 32}, scales,
                      "model-1.safetensors");
      coded.values[module + ".weight"] = std::move(values);
    }
  }
  coded.model.add_floats("layers.0.ffn.gate.weight", {2, 256}, gaussian(512, 70),
                         "model-1.safetensors");
  coded.model.add_floats("embed.weight", {16, 256}, gaussian(16 * 256, 71), "model-2.safetensors");
  coded.model.config =
      R"({"model_type": "deepseek_v4", "hidden_size": 256, "num_hidden_layers": 1,
          "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128],
          "scale_fmt": "ue8m0", "expert_dtype": "fp4"}})";
  return coded;
}

/// Where the scale of a row and block lies in tiles of 128 x 4, drawn after cuBLAS's description:
/// 32 lines of 16 bytes, four rows 32 apart side by side.
inline std::size_t tile_place(std::int64_t row, std::int64_t block, std::int64_t blocks) {
  const std::int64_t tiles = (blocks + 3) / 4;
  const std::int64_t tile = row / 128 * tiles + block / 4;
  return static_cast<std::size_t>(tile * 512 + row % 128 % 32 * 16 + row % 128 / 32 * 4 +
                                  block % 4);
}

/// A layer [rows, cols] of ComfyUI: NVFP4 (padded to 16) or MXFP8 (to 32).
inline void add_comfyui(CodedModel& coded, const std::string& module, Format format,
                        std::int64_t rows, std::int64_t cols, unsigned seed,
                        bool with_marker = true) {
  const bool nvfp4 = format == Format::nvfp4;
  const std::int64_t pad = nvfp4 ? 16 : 32, block = pad;
  const std::int64_t high = (rows + pad - 1) / pad * pad, blocks = cols / block;
  const std::int64_t scale_rows = (high + 127) / 128 * 128, scale_cols = (blocks + 3) / 4 * 4;
  Bytes codes = nvfp4 ? random_bytes(high * cols / 2, seed) : random_e4m3(high * cols, seed);
  Bytes scales(static_cast<std::size_t>(scale_rows * scale_cols));
  const Bytes numbers = nvfp4 ? random_bytes(high * blocks, seed + 1, 1, 0x7E)
                              : random_bytes(high * blocks, seed + 1, 110, 116);
  const float global = 0x1.8p-12f;
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::int64_t row = 0; row < high; ++row) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::uint8_t scale = numbers[static_cast<std::size_t>(row * blocks + b)];
      scales[tile_place(row, b, blocks)] = scale;
      for (std::int64_t i = 0; i < block && row < rows; ++i) {
        const auto at = static_cast<std::size_t>(row * cols + b * block + i);
        if (nvfp4) {
          const std::uint8_t code = at % 2 ? codes[at / 2] & 15 : codes[at / 2] >> 4;
          values[at] = e2m1_value(code) * (e4m3_value(scale) * global);
        } else {
          values[at] = e4m3_value(codes[at]) * e8m0_value(scale);
        }
      }
    }
  }
  const std::string shard = "model.safetensors";
  if (nvfp4) {
    coded.model.add(module + ".weight", StoredType::u8, {high, cols / 2}, codes, shard);
    coded.model.add(module + ".weight_scale_2", StoredType::f32, {}, bytes_of(global), shard);
  } else {
    coded.model.add(module + ".weight", StoredType::f8_e4m3, {high, cols}, codes, shard);
  }
  coded.model.add(module + ".weight_scale", nvfp4 ? StoredType::f8_e4m3 : StoredType::u8,
                  {scale_rows, scale_cols}, scales, shard);
  coded.model.add_floats(module + ".bias", {rows},
                         std::vector<float>(static_cast<std::size_t>(rows), 0.5f), shard);
  coded.values[module + ".weight"] = std::move(values);
  if (!with_marker) return;
  const std::string text = nvfp4 ? R"({"format": "nvfp4"})" : R"({"format": "mxfp8"})";
  coded.model.add(module + ".comfy_quant", StoredType::u8, {static_cast<std::int64_t>(text.size())},
                  Bytes(text.begin(), text.end()), shard);
}

/// Two blocks of a diffusion model in one file: NVFP4, MXFP8 and scaled FP8, one side not a
/// multiple of 16. With `metadata` the layers are listed there and have no markers.
inline CodedModel comfyui_model(bool metadata = false) {
  CodedModel coded;
  const std::string block = "model.diffusion_model.blocks.0.";
  add_comfyui(coded, block + "attn.qkv", Format::nvfp4, 300, 320, 31, !metadata);
  add_comfyui(coded, block + "attn.out", Format::nvfp4, 320, 128, 33, !metadata);
  add_comfyui(coded, block + "mlp.up", Format::mxfp8_e4m3, 170, 320, 35, !metadata);
  CodedModel fp8;
  add_fp8(fp8, block + "mlp.down", 320, 160,
          {.name = "weight_scale", .block_rows = 0, .block_cols = 0, .vector = true}, 37);
  for (const auto& [name, tensor] : fp8.model.shards["model-1.safetensors"]) {
    coded.model.add(name, tensor.type, tensor.shape, tensor.bytes);
  }
  coded.values.merge(fp8.values);
  const std::string text = R"({"format": "float8_e4m3fn"})";
  if (!metadata) {
    coded.model.add(block + "mlp.down.comfy_quant", StoredType::u8,
                    {static_cast<std::int64_t>(text.size())}, Bytes(text.begin(), text.end()));
  }
  coded.model.add_floats("model.diffusion_model.img_in.weight", {64, 64}, gaussian(64 * 64, 39));
  if (metadata) {
    coded.model.metadata.emplace_back(
        "_quantization_metadata",
        R"({"format_version": "1.0", "layers": {)"
        R"("model.diffusion_model.blocks.0.attn.qkv": {"format": "nvfp4"},)"
        R"("model.diffusion_model.blocks.0.attn.out": {"format": "nvfp4"},)"
        R"("model.diffusion_model.blocks.0.mlp.up": {"format": "mxfp8"},)"
        R"("model.diffusion_model.blocks.0.mlp.down": {"format": "float8_e4m3fn"}}})");
  }
  return coded;
}

/// Values [first, first + count) of a weight as floats; all of it if count is negative.
inline std::vector<float> decoded(const StoredWeight& weight, std::int64_t first = 0,
                                  std::int64_t count = -1) {
  if (count < 0) count = weight.elements();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * weight.value_bytes()));
  EXPECT_TRUE(succeeds(weight.decode(first, count, bytes)));
  std::vector<float> values(static_cast<std::size_t>(count));
  decode_dense(weight.facts().type, bytes, values);
  return values;
}

/// Every weight of the folder that must be computed is, with these values, whole and in part.
inline void expect_values(const QuantizedFolder& folder, const CodedModel& coded) {
  EXPECT_EQ(folder.unusable, Findings());
  for (const auto& [name, values] : coded.values) {
    const LogicalTensor* tensor = folder.find(name);
    ASSERT_NE(tensor, nullptr) << name;
    ASSERT_TRUE(tensor->coded()) << name;
    ASSERT_EQ(tensor->elements(), static_cast<std::int64_t>(values.size())) << name;
    PieceData data;
    ASSERT_TRUE(succeeds(read_piece(folder, {tensor, 0, tensor->elements()}, data)));
    ASSERT_EQ(data.values, values) << name;
    if (!tensor->weight) continue;
    ASSERT_EQ(decoded(*tensor->weight), values) << name;
    const std::vector<float> middle(values.begin() + 1003, values.begin() + 1003 + 2001);
    ASSERT_EQ(decoded(*tensor->weight, 1003, 2001), middle) << name;
  }
}

}  // namespace microscale::testing
