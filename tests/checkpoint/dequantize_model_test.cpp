#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/dense_output.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/small_model.hpp"
#include "checkpoint/weight_reader.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::SmallModel;
using testing::TemporaryFolder;

// "<code>: <message>" of what dequantize_model throws.
std::string failure_of(const fs::path& input, const fs::path& output) {
  try {
    dequantize_model({input, output, DType::bf16});
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no failure";
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(folder).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string tensor_bytes(const fs::path& folder, const std::string& name) {
  const ModelFolder model = take(open_model_folder(folder));
  const ModelTensor* tensor = model.find(name);
  if (!tensor) return "no tensor " + name;
  std::string bytes(tensor->entry->bytes(), '\0');
  auto* data = reinterpret_cast<std::uint8_t*>(bytes.data());
  take(model.shards[tensor->shard].file.read_at(tensor->entry->begin, {data, bytes.size()}));
  return bytes;
}

constexpr float code_values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                   -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// An E4M3 or E8M0 byte as a number, computed from the definition.
float decoded_e4m3(int byte) {
  const int exponent = byte >> 3 & 15, mantissa = byte & 7;
  const float magnitude = exponent ? std::ldexp(8.0f + static_cast<float>(mantissa), exponent - 10)
                                   : std::ldexp(static_cast<float>(mantissa), -9);
  return byte & 0x80 ? -magnitude : magnitude;
}

// 126 scales x 16 codes under one divisor, against bf16(code * (scale / divisor)) in FP32.
void expect_compressed_tensors_values(float divisor) {
  testing::Bytes codes, scales;
  for (int scale = 1; scale <= 126; ++scale) {
    scales.push_back(static_cast<std::uint8_t>(scale));
    for (int i = 0; i < 8; ++i)
      codes.push_back(static_cast<std::uint8_t>(2 * i | (2 * i + 1) << 4));
  }
  SmallModel model;
  model.add("m.weight_packed", StoredType::u8, {126, 8}, codes);
  model.add("m.weight_scale", StoredType::f8_e4m3, {126, 1}, scales);
  model.add_floats("m.weight_global_scale", {1}, {divisor});
  TemporaryFolder folder;
  model.write(folder / "in");
  dequantize_model({folder / "in", folder / "bf16", DType::bf16});
  dequantize_model({folder / "in", folder / "f32", DType::f32});
  const std::string narrow = tensor_bytes(folder / "bf16", "m.weight");
  const std::string wide = tensor_bytes(folder / "f32", "m.weight");
  ASSERT_EQ(narrow.size(), 126u * 16 * 2);
  for (int row = 0; row < 126; ++row) {
    for (int code = 0; code < 16; ++code) {
      const float wanted = code_values[code] * (decoded_e4m3(row + 1) / divisor);
      std::uint16_t bits = 0;
      float value = 0;
      std::memcpy(&bits, narrow.data() + (row * 16 + code) * 2, 2);
      std::memcpy(&value, wide.data() + (row * 16 + code) * 4, 4);
      ASSERT_EQ(bits, float_to_bf16(wanted)) << "scale byte " << row + 1 << ", code " << code;
      ASSERT_EQ(value, wanted) << "scale byte " << row + 1 << ", code " << code;
    }
  }
}

TEST(DequantizeModel, nvfp4_is_what_compressed_tensors_computes_for_every_scale_and_code) {
  expect_compressed_tensors_values(stored_global_scale(nvfp4_global_scale(0.3f)));
}

TEST(DequantizeModel, nvfp4_of_other_tools_is_too_although_their_divisors_are_arbitrary) {
  for (const float amax : {0.3f, 0.0123f, 1.7f, 9.9f, 0.5f, 0.077f}) {
    expect_compressed_tensors_values(2688.0f / amax);
  }
}

TEST(DequantizeModel, mx_formats_are_codes_times_powers_of_two) {
  SmallModel model;
  testing::Bytes packed, bytes8, scales;
  for (int scale = 0; scale < 255; ++scale) {
    scales.push_back(static_cast<std::uint8_t>(scale));
    for (int i = 0; i < 16; ++i) {  // codes 0 to 15, twice
      packed.push_back(static_cast<std::uint8_t>(2 * (i % 8) | (2 * (i % 8) + 1) << 4));
    }
    for (int i = 0; i < 32; ++i) bytes8.push_back(static_cast<std::uint8_t>((i * 8 + scale) % 127));
  }
  model.add("a.weight_packed", StoredType::u8, {255, 16}, packed);
  model.add("a.weight_scale", StoredType::u8, {255, 1}, scales);
  model.add("b.weight", StoredType::f8_e4m3, {255, 32}, bytes8);
  model.add("b.weight_scale", StoredType::u8, {255, 1}, scales);
  TemporaryFolder folder;
  model.write(folder / "in");
  dequantize_model({folder / "in", folder / "out", DType::f32});
  const std::string a = tensor_bytes(folder / "out", "a.weight"),
                    b = tensor_bytes(folder / "out", "b.weight");
  for (int row = 0; row < 255; ++row) {
    for (int i = 0; i < 32; ++i) {
      float got_a = 0, got_b = 0;
      std::memcpy(&got_a, a.data() + (row * 32 + i) * 4, 4);
      std::memcpy(&got_b, b.data() + (row * 32 + i) * 4, 4);
      const auto value = [&](float code) {
        return static_cast<float>(std::ldexp(static_cast<double>(code), row - 127));
      };
      ASSERT_EQ(got_a, value(code_values[i % 16])) << row << ", " << i;
      ASSERT_EQ(got_b, value(decoded_e4m3(bytes8[static_cast<std::size_t>(row * 32 + i)])))
          << row << ", " << i;
    }
  }
}

TEST(DequantizeModel, mirrors_shards_copies_files_and_cleans_the_config) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  const std::string moved = "model.layers.0.mlp.up_proj";
  for (const char* part : {".weight_packed", ".weight_scale", ".weight_global_scale"}) {
    model.shards["model-2.safetensors"][moved + part] = model.at(moved + part);
    model.shards["model.safetensors"].erase(moved + part);
  }
  // Nothing but scales: there will be no such file.
  const std::string lone = "model.layers.0.mlp.down_proj.weight_scale";
  model.shards["model-3.safetensors"][lone] = model.at(lone);
  model.shards["model.safetensors"].erase(lone);
  model.files = {
      {"tokenizer.json", "{}"}, {"1_Pooling/config.json", "pool"}, {"hf_quant_config.json", "{}"}};
  model.add("position_ids", StoredType::i64, {1, 3},
            testing::bytes_of(std::vector<std::int64_t>{0, 1, 2}));
  TemporaryFolder folder;
  model.write(folder / "in");
  dequantize_model({folder / "in", folder / "out", DType::f16});

  EXPECT_EQ(names_in(folder / "out"),
            (std::vector<std::string>{"1_Pooling/config.json", "config.json", manifest_name,
                                      "model-2.safetensors", "model.safetensors",
                                      "model.safetensors.index.json", "tokenizer.json"}));
  EXPECT_EQ(testing::read_file(folder / "out" / "config.json"),
            "{\n  \"model_type\": \"llama\",\n  \"torch_dtype\": \"float16\"\n}\n");
  EXPECT_EQ(testing::read_file(folder / "out" / "1_Pooling" / "config.json"), "pool");
  const ModelFolder out = take(open_model_folder(folder / "out"));
  EXPECT_EQ(out.notices, std::vector<std::string>());
  EXPECT_EQ(out.tensors.size(), 10u);
  EXPECT_EQ(out.find(moved + ".weight")->entry->type, StoredType::f16);
  EXPECT_EQ(out.shards[out.find(moved + ".weight")->shard].name, "model-2.safetensors");
  for (const std::string name : {"model.norm.weight", "lm_head.weight", "position_ids"}) {
    const auto& wanted = model.at(name).bytes;
    EXPECT_EQ(tensor_bytes(folder / "out", name), std::string(wanted.begin(), wanted.end()));
  }
}

TEST(DequantizeModel, writes_the_same_bytes_at_any_number_of_threads) {
  SmallModel model;
  const std::int64_t rows = 3,
                     cols = piece_elements / 2 + 32;  // more than one piece, no whole number
  model.add_quantized("m", Format::mxfp4, rows, cols, testing::gaussian(rows * cols, 9));
  model.add_quantized("n", Format::nvfp4, 5, 32, testing::gaussian(160, 10));
  TemporaryFolder folder;
  model.write(folder / "in");
  dequantize_model({folder / "in", folder / "one", DType::bf16, 1});
  dequantize_model({folder / "in", folder / "three", DType::bf16, 3});
  const std::string one = testing::read_file(folder / "one" / "model.safetensors");
  EXPECT_GT(one.size(), static_cast<std::size_t>(rows * cols * 2));
  EXPECT_EQ(one, testing::read_file(folder / "three" / "model.safetensors"));
}

TEST(DequantizeModel, refuses_what_would_lose_something) {
  TemporaryFolder folder;
  testing::small_llama(Format::mxfp4).write(folder / "in");
  const fs::path in = folder / "in";
  EXPECT_EQ(failure_of(in, in),
            "invalid_argument: dequantize: the output '" + in.string() +
                "' is the input, which is never written to; name another folder");
  EXPECT_EQ(failure_of(in, in / "deep" / "er"),
            "invalid_argument: dequantize: the output '" + (in / "deep" / "er").string() +
                "' is inside the input; name a folder elsewhere");
  EXPECT_EQ(failure_of(in, folder.path()), "invalid_argument: dequantize: the output '" +
                                               folder.path().string() +
                                               "' holds the input; name a folder elsewhere");
  fs::create_directory_symlink(in, folder / "link");
  EXPECT_NE(failure_of(in, folder / "link").find("is the input"), std::string::npos);
  testing::write_file(folder / "full" / "mine.txt", "precious");
  EXPECT_NE(failure_of(in, folder / "full").find("is not empty"), std::string::npos);
  EXPECT_EQ(testing::read_file(folder / "full" / "mine.txt"), "precious");
  testing::write_file(folder / "file", "");
  EXPECT_NE(failure_of(in, folder / "file").find("is a file; name a folder"), std::string::npos);
}

TEST(DequantizeModel, refuses_what_is_not_whole_or_not_quantized) {
  TemporaryFolder folder;
  SmallModel dense;
  dense.add_floats("a.weight", {2, 2}, {1, 2, 3, 4});
  dense.write(folder / "dense");
  EXPECT_EQ(failure_of(folder / "dense", folder / "out"),
            "bad_input: dequantize: '" + (folder / "dense").string() +
                "' holds no quantized weights; name a folder that `quantize` wrote");
  SmallModel broken = testing::small_llama(Format::mxfp4);
  broken.remove("model.layers.0.mlp.up_proj.weight_scale");
  broken.write(folder / "broken");
  EXPECT_NE(failure_of(folder / "broken", folder / "out").find("its block scales"),
            std::string::npos);
  SmallModel unfinished = testing::small_llama(Format::mxfp4);
  unfinished.files[".microscale-journal"] = "{}";
  unfinished.write(folder / "unfinished");
  EXPECT_NE(failure_of(folder / "unfinished", folder / "out").find("is unfinished"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(DequantizeModel, stopped_leaves_a_marked_folder_that_the_next_run_takes_over) {
  TemporaryFolder folder;
  testing::small_llama(Format::nvfp4).write(folder / "in");
  // Reading comes first, then writing.
  const ProgressCallback stop = [&](std::int64_t done, std::int64_t total, std::string_view) {
    return 2 * done < total;
  };
  EXPECT_THROW(dequantize_model({folder / "in", folder / "out", DType::bf16, 1}, stop), Error);
  EXPECT_EQ(names_in(folder / "out"), std::vector<std::string>{dequantize_marker});
  // What a kill would have left.
  testing::write_file(folder / "out" / "model.safetensors.partial", "half");

  std::int64_t last = -1, total = 0;
  dequantize_model({folder / "in", folder / "out", DType::bf16, 1},
                   [&](std::int64_t done, std::int64_t all, std::string_view) {
                     EXPECT_GT(done, last);
                     last = done;
                     total = all;
                     return true;
                   });
  EXPECT_EQ(last, total);
  EXPECT_EQ(names_in(folder / "out"),
            (std::vector<std::string>{"config.json", manifest_name, "model.safetensors"}));
  dequantize_model({folder / "in", folder / "again", DType::bf16});
  EXPECT_EQ(testing::read_file(folder / "out" / "model.safetensors"),
            testing::read_file(folder / "again" / "model.safetensors"));
}

TEST(DequantizeModel, does_not_take_over_a_folder_begun_from_another_input) {
  TemporaryFolder folder;
  testing::small_llama(Format::nvfp4).write(folder / "in");
  testing::write_file(folder / "out" / dequantize_marker, "of somewhere else\n");
  EXPECT_NE(failure_of(folder / "in", folder / "out").find("is not empty"), std::string::npos);
}

TEST(DequantizeModel, takes_a_single_file_and_writes_beside_it) {
  TemporaryFolder folder;
  testing::small_llama(Format::mxfp8_e4m3).write(folder / "in");
  dequantize_model({folder / "in" / "model.safetensors", folder / "in" / "dense", DType::bf16});
  EXPECT_EQ(names_in(folder / "in" / "dense"),
            (std::vector<std::string>{"config.json", manifest_name, "model.safetensors"}));
}

// What dequantize_model says to the model, with these options; the output must not be there then.
std::string refusal_of(const SmallModel& model, DType dtype = DType::bf16, bool allow_nan = false) {
  TemporaryFolder folder;
  model.write(folder / "in");
  try {
    dequantize_model({folder / "in", folder / "out", dtype, 2, allow_nan});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_FALSE(fs::exists(folder / "out"));
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& phrase) {
  return text.find(phrase) != std::string::npos;
}

TEST(DequantizeModel, refuses_scales_and_codes_that_are_no_numbers_with_the_words_of_verify) {
  const std::string down = "model.layers.0.mlp.down_proj", up = "model.layers.0.mlp.up_proj";
  SmallModel nvfp4 = testing::small_llama(Format::nvfp4);
  nvfp4.at(down + ".weight_scale").bytes[5] = 0xFF;
  nvfp4.at(up + ".weight_scale").bytes[0] = 0x7F;
  const std::string text = refusal_of(nvfp4);
  EXPECT_TRUE(has(text, "'" + down + ".weight_scale': row 1, block 1: the scale is NaN (0xFF)"))
      << text;
  EXPECT_TRUE(has(text, "or pass --allow-nan to write NaN there (1 more tensors hold NaN")) << text;
  EXPECT_EQ(refusal_of(nvfp4, DType::bf16, true), "");
  SmallModel mxfp8 = testing::small_llama(Format::mxfp8_e4m3);
  mxfp8.at(down + ".weight_scale").bytes[0] = 255;
  EXPECT_TRUE(has(refusal_of(mxfp8), "the scale is NaN (0xFF)"));
  mxfp8 = testing::small_llama(Format::mxfp8_e4m3);
  mxfp8.at(down + ".weight").bytes[0] = 0x7F;
  EXPECT_TRUE(has(refusal_of(mxfp8), "the code is NaN (0x7F)"));
}

TEST(DequantizeModel, refuses_values_beyond_the_type) {
  SmallModel model;
  testing::Bytes codes(64, 0x77);  // 6, 6
  codes[0] = 0x27;                 // 6, 1
  model.add("m.weight_packed", StoredType::u8, {2, 32}, codes);
  model.add("m.weight_scale", StoredType::u8, {2, 2}, {127 + 14, 127 + 13, 127 + 14, 127});
  const std::string text = refusal_of(model, DType::f16);  // 6 * 2^14 = 98304, 6 * 2^13 = 49152
  EXPECT_TRUE(has(text,
                  "63 values exceed 65504, the largest number of f16 (the first in "
                  "'m.weight'); use --dtype bf16 or f32"))
      << text;
  EXPECT_EQ(refusal_of(model, DType::bf16), "");
}

TEST(DequantizeModel, drops_what_a_calibration_left_and_says_so) {
  TemporaryFolder folder;
  SmallModel model = testing::small_llama(Format::nvfp4);
  const std::string layer = "model.layers.0.self_attn.q_proj";
  model.add_floats(layer + ".input_quantizer._amax", {1}, {3});
  model.add_floats("lm_head.input_scale", {1}, {1});
  model.add_floats(layer + ".input_global_scale", {1}, {1});
  model.files["hf_quant_config.json"] = "{}";
  model.files["pytorch_model.bin"] = "x";
  model.write(folder / "in");
  const DequantizedModel result = dequantize_model({folder / "in", folder / "out"});
  std::vector<std::string> names;
  for (const LeftOut& one : result.left_out) {
    names.push_back(one.name);
    EXPECT_FALSE(one.reason.empty());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "hf_quant_config.json", "lm_head.input_scale", layer + ".input_global_scale",
                       layer + ".input_quantizer._amax", "pytorch_model.bin"}));
  const ModelFolder dense = take(open_model_folder(folder / "out"));
  EXPECT_EQ(dense.tensors.size(), 9u);
  for (const ModelTensor& tensor : dense.tensors) EXPECT_TRUE(has(tensor.name(), ".weight"));
}

TEST(DequantizeModel, names_what_it_does_not_decode_and_sends_nobody_in_a_circle) {
  const auto add_eight_bits = [](SmallModel& model, const std::string& module) {
    model.add(module + ".weight", StoredType::i8, {64, 64}, testing::Bytes(64 * 64, 0x38));
    model.add_floats(module + ".SCB", {64}, std::vector<float>(64, 1.0f));
  };
  SmallModel other;
  add_eight_bits(other, "model.layers.0.mlp.up_proj");
  const std::string text = refusal_of(other);
  EXPECT_TRUE(has(text, "'model.layers.0.mlp.up_proj': bitsandbytes")) << text;
  EXPECT_TRUE(has(text, "which is not decoded here")) << text;
  EXPECT_TRUE(has(text, "model.dequantize(), then save_pretrained")) << text;
  SmallModel mixed = testing::small_llama(Format::nvfp4);
  add_eight_bits(mixed, "model.layers.1.mlp.up_proj");
  EXPECT_TRUE(has(refusal_of(mixed), "; the other 6 quantized layers can be decoded; "));
  TemporaryFolder folder;
  other.write(folder / "in");
  QuantizeModelOptions options;
  options.input = folder / "in";
  options.output = folder / "out";
  try {
    quantize_model(options);
    ADD_FAILURE() << "quantized";
  } catch (const Error& error) {
    EXPECT_FALSE(has(error.what(), "or dequantize it first")) << error.what();
    EXPECT_TRUE(has(error.what(), "let transformers expand it")) << error.what();
  }
}

}  // namespace
}  // namespace microscale
