// GGUF files made of GGUF files: what is kept is kept byte for byte, and weights are those of
// microscale::quantize on the file's values.
#include "checkpoint/gguf_output.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/containers/gguf_blocks.hpp"
#include "checkpoint/containers/gguf_file.hpp"
#include "checkpoint/containers/gguf_small.hpp"
#include "checkpoint/convert.hpp"
#include "checkpoint/support.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using namespace testing;

// Weights as they are in models: small numbers, in rows of their own size.
std::string weights(std::int64_t rows, std::int64_t cols, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const double x = std::sin(static_cast<double>(i * 37 + seed * 101)) * 0.02;
    values.push_back(static_cast<float>(x * (1 + static_cast<double>(i / cols % 7))));
  }
  return float_bytes(values);
}

GgufBuilder small_model() {
  GgufBuilder builder = small_metadata("llama");
  builder.value("general.file_type", gguf_u32(7));
  add_small_tokenizer(builder, "smollm");
  return add_small_tensors(builder);
}

class GgufOutput : public ::testing::Test {
 protected:
  QuantizeModelOptions options(Format format = Format::nvfp4) const {
    QuantizeModelOptions options;
    options.input = folder_ / "in.gguf";
    options.output = folder_ / "out.gguf";
    options.container = Container::gguf;
    options.format = format;
    options.threads = 2;
    return options;
  }

  // Quantizes what `builder` makes.
  GgufFile quantized(const GgufBuilder& builder, const QuantizeModelOptions& options) {
    write_file(folder_ / "in.gguf", builder.file());
    fs::remove(options.output);
    conversion_ = convert_model(options);
    return take(open_gguf(options.output));
  }
  GgufFile quantized(const GgufBuilder& builder, Format format = Format::nvfp4) {
    return quantized(builder, options(format));
  }

  static std::vector<std::uint8_t> bytes(const GgufFile& file, const std::string& name) {
    const GgufFile::Tensor* tensor = file.find(name);
    if (!tensor) return {};
    std::vector<std::uint8_t> bytes(tensor->entry->bytes());
    take(read_gguf(file, *tensor, 0, bytes));
    return bytes;
  }
  static std::vector<float> values(const GgufFile& file, const std::string& name) {
    const GgufTensor& tensor = *file.find(name)->entry;
    const GgufTypeInfo& type = info(tensor.type);
    std::vector<float> values(tensor.bytes() / static_cast<std::uint64_t>(type.bytes * 1) *
                              static_cast<std::uint64_t>(type.block));
    decode_gguf_blocks(tensor.type, bytes(file, name), values);
    return values;
  }

  // What the library makes of the matrix, decoded.
  static std::vector<float> expected(std::vector<float> matrix, std::int64_t cols, Format format) {
    const auto rows = static_cast<std::int64_t>(matrix.size()) / cols;
    QuantizeOptions options;
    options.input = {matrix.data(), DType::f32, rows, cols, cols};
    options.format = format;
    BlockTensor tensor = quantize(options);
    // llama.cpp multiplies what a block stands for by the tensor's scale.
    const float global_scale = std::exchange(tensor.global_scale, 1.0f);
    std::vector<float> out(matrix.size());
    dequantize(tensor.view(), {out.data(), DType::f32, rows, cols, cols});
    for (float& value : out) value *= global_scale;
    return out;
  }

  const TensorPlan& planned(const std::string& name) const {
    for (const TensorPlan& tensor : conversion_.plan.tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::runtime_error("no plan of " + name);
  }

  ::testing::AssertionResult notes(const std::string& phrase) const {
    for (const std::string& notice : conversion_.plan.notices) {
      if (notice.find(phrase) != std::string::npos) return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << "no notice has: " << phrase;
  }

  void expect_failure(const QuantizeModelOptions& options, ErrorCode code,
                      const std::string& phrase) const {
    try {
      convert_model(options);
      ADD_FAILURE() << "succeeded; wanted: " << phrase;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(phrase), std::string::npos) << error.what();
    }
  }

  const TemporaryFolder folder_;
  Conversion conversion_;
};

TEST_F(GgufOutput, weights_are_what_the_library_makes_of_the_files_values) {
  for (const Format format : {Format::nvfp4, Format::mxfp4}) {
    GgufBuilder builder = small_model();
    builder.tensor("blk.1.attn_q.weight", GgufType::f32, {64, 70}, weights(70, 64, 1));
    const GgufFile in = [&] {
      write_file(folder_ / "in.gguf", builder.file());
      return take(open_gguf(folder_ / "in.gguf"));
    }();
    const GgufFile out = quantized(builder, format);
    for (const std::string name :
         {"blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_output", "blk.0.ffn_up", "blk.1.attn_q"}) {
      const GgufTensor& tensor = *out.find(name + ".weight")->entry;
      EXPECT_EQ(tensor.type, format == Format::nvfp4 ? GgufType::nvfp4 : GgufType::mxfp4);
      EXPECT_EQ(tensor.shape, in.find(name + ".weight")->entry->shape);
      std::vector<float> got = values(out, name + ".weight");
      if (format == Format::nvfp4) {
        ASSERT_EQ(out.find(name + ".scale")->entry->shape, std::vector<std::int64_t>{1});
        const float scale = values(out, name + ".scale").front();
        EXPECT_LT(scale, 0.01f);  // of the tensor, not 1
        for (float& value : got) value *= scale;
      } else {
        EXPECT_EQ(out.find(name + ".scale"), nullptr);
      }
      EXPECT_EQ(got, expected(values(in, name + ".weight"), 64, format)) << name;
    }
  }
}

TEST_F(GgufOutput, everything_else_stays_as_it_is) {
  const GgufBuilder builder = small_model();
  const GgufFile out = quantized(builder);
  const GgufFile in = take(open_gguf(folder_ / "in.gguf"));
  for (const std::string name : {"token_embd.weight", "output_norm.weight",
                                 "blk.0.attn_norm.weight", "blk.0.ffn_down.weight"}) {
    EXPECT_EQ(out.find(name)->entry->type, in.find(name)->entry->type) << name;
    EXPECT_EQ(bytes(out, name), bytes(in, name)) << name;
  }
  const auto& before = in.parts[0].header.metadata;
  const auto& after = out.parts[0].header.metadata;
  ASSERT_EQ(after.size(), before.size() + 1);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].first, before[i].first);
    if (before[i].first == "general.file_type") continue;
    EXPECT_EQ(after[i].second.shown(100), before[i].second.shown(100)) << before[i].first;
  }
  EXPECT_EQ(out.value("general.file_type")->whole(), 39u);
  EXPECT_EQ(out.value("general.quantization_version")->whole(), 2u);
  EXPECT_EQ(quantized(builder, Format::mxfp4).value("general.file_type")->whole(), 38u);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().extension(), ".gguf") << entry.path();  // nothing beside it
  }
}

TEST_F(GgufOutput, rows_that_are_no_whole_blocks_are_kept_and_named) {
  quantized(small_model());
  EXPECT_EQ(planned("blk.0.ffn_down.weight").reason, "K = 96 is no multiple of 64");
  EXPECT_TRUE(notes("1 weights of layers are kept as they are, such as 'blk.0.ffn_down.weight'"));
  const GgufFile mxfp4 = quantized(small_model(), Format::mxfp4);
  EXPECT_EQ(mxfp4.find("blk.0.ffn_down.weight")->entry->type, GgufType::mxfp4);
  EXPECT_FALSE(notes("are kept as they are"));
}

TEST_F(GgufOutput, every_expert_has_a_scale_of_its_own) {
  GgufBuilder builder = small_metadata("qwen3moe");
  std::string experts = weights(8, 128, 1);
  for (const float value : {3.0f, -0.5f}) {
    std::string other = weights(8, 128, 2);
    std::memcpy(other.data(), &value, 4);
    experts += other;
  }
  builder.tensor("blk.0.ffn_up_exps.weight", GgufType::f32, {128, 8, 3}, experts)
      .tensor("blk.0.ffn_gate_inp.weight", GgufType::f32, {128, 3}, weights(3, 128, 5))
      .tensor("token_embd.weight", GgufType::f32, {128, 2}, weights(2, 128, 6));
  const GgufFile out = quantized(builder);
  const GgufFile in = take(open_gguf(folder_ / "in.gguf"));
  EXPECT_EQ(out.find("blk.0.ffn_up_exps.scale")->entry->shape, std::vector<std::int64_t>{3});
  const std::vector<float> scales = values(out, "blk.0.ffn_up_exps.scale");
  const std::vector<float> got = values(out, "blk.0.ffn_up_exps.weight");
  const std::vector<float> had = values(in, "blk.0.ffn_up_exps.weight");
  for (std::size_t e = 0; e < 3; ++e) {
    const auto begin = static_cast<std::ptrdiff_t>(e * 1024);
    std::vector<float> mine(got.begin() + begin, got.begin() + begin + 1024);
    for (float& value : mine) value *= scales[e];
    EXPECT_EQ(mine,
              expected({had.begin() + begin, had.begin() + begin + 1024}, 128, Format::nvfp4));
  }
  EXPECT_EQ(out.find("blk.0.ffn_gate_inp.weight")->entry->type, GgufType::f32);
  EXPECT_EQ(planned("blk.0.ffn_gate_inp.weight").reason, "router");
}

TEST_F(GgufOutput, nvfp4_with_a_scale_becomes_mxfp4_of_the_scaled_values) {
  GgufBuilder builder = small_metadata("llama");
  std::string blocks;
  for (int i = 0; i < 16; ++i) {
    blocks += std::string(4, '\x38');  // 1.0
    for (int j = 0; j < 32; ++j) blocks += static_cast<char>(i * 32 + j);
  }
  builder.tensor("blk.0.attn_q.weight", GgufType::nvfp4, {64, 16}, blocks)
      .tensor("blk.0.attn_q.scale", GgufType::f32, {1}, float_bytes({0.0625f}))
      .tensor("blk.0.attn_q.input_scale", GgufType::f32, {1}, float_bytes({3.0f}));
  const GgufFile out = quantized(builder, Format::mxfp4);
  EXPECT_EQ(out.find("blk.0.attn_q.scale"), nullptr);
  EXPECT_EQ(planned("blk.0.attn_q.scale").treatment, Treatment::drop);
  EXPECT_EQ(values(out, "blk.0.attn_q.input_scale").front(), 3.0f);
  const GgufFile in = take(open_gguf(folder_ / "in.gguf"));
  std::vector<float> had = values(in, "blk.0.attn_q.weight");
  for (float& value : had) value *= 0.0625f;
  EXPECT_EQ(values(out, "blk.0.attn_q.weight"), expected(had, 64, Format::mxfp4));
}

TEST_F(GgufOutput, experts_that_have_scales_of_their_own_are_read_with_them) {
  GgufBuilder builder = small_metadata("qwen3moe");
  builder.tensor("blk.0.ffn_up_exps.weight", GgufType::f32, {64, 4, 3}, weights(12, 64, 1));
  const GgufFile nvfp4 = quantized(builder);
  std::vector<float> had = values(nvfp4, "blk.0.ffn_up_exps.weight");
  const std::vector<float> scales = values(nvfp4, "blk.0.ffn_up_exps.scale");
  ASSERT_NE(scales[0], scales[1]);
  for (std::size_t i = 0; i < had.size(); ++i) had[i] *= scales[i / 256];
  fs::rename(options().output, folder_ / "in.gguf");
  conversion_ = convert_model(options(Format::mxfp4));
  const GgufFile mxfp4 = take(open_gguf(options().output));
  EXPECT_EQ(values(mxfp4, "blk.0.ffn_up_exps.weight"), expected(had, 64, Format::mxfp4));
  EXPECT_EQ(mxfp4.find("blk.0.ffn_up_exps.scale"), nullptr);
}

TEST_F(GgufOutput, what_has_the_format_already_is_kept) {
  GgufBuilder builder = small_metadata("llama");
  builder.tensor("blk.0.attn_q.weight", GgufType::nvfp4, {64, 1}, std::string(36, 1))
      .tensor("blk.0.attn_q.scale", GgufType::f32, {1}, float_bytes({0.5f}));
  write_file(folder_ / "in.gguf", builder.file());
  expect_failure(options(), ErrorCode::bad_input, "nothing in");
  builder.tensor("blk.0.attn_k.weight", GgufType::f32, {64, 2}, weights(2, 64, 1));
  const GgufFile out = quantized(builder);
  EXPECT_EQ(bytes(out, "blk.0.attn_q.weight"), std::vector<std::uint8_t>(36, 1));
  EXPECT_EQ(values(out, "blk.0.attn_q.scale").front(), 0.5f);
  EXPECT_EQ(planned("blk.0.attn_q.weight").reason, "NVFP4 already");
}

TEST_F(GgufOutput, types_that_are_not_decoded_and_layers_without_a_scale_are_kept) {
  GgufBuilder builder = small_metadata("deepseek2");
  builder.tensor("blk.0.attn_q.weight", GgufType::iq2_xxs, {256, 1}, std::string(66, 7))
      .tensor("blk.0.attn_kv_b.weight", GgufType::f32, {64, 2}, weights(2, 64, 1))
      .tensor("blk.0.attn_output.weight", GgufType::f32, {64, 2}, weights(2, 64, 2));
  const GgufFile out = quantized(builder);
  EXPECT_EQ(planned("blk.0.attn_q.weight").reason, "IQ2_XXS is not decoded here");
  EXPECT_NE(planned("blk.0.attn_kv_b.weight").reason.find("no scale for it"), std::string::npos);
  EXPECT_EQ(out.find("blk.0.attn_output.weight")->entry->type, GgufType::nvfp4);
  EXPECT_TRUE(notes("architecture 'deepseek2' was not checked"));
  const GgufFile mxfp4 = quantized(builder, Format::mxfp4);
  EXPECT_EQ(mxfp4.find("blk.0.attn_kv_b.weight")->entry->type, GgufType::mxfp4);
}

TEST_F(GgufOutput, patterns_choose_and_are_refused_where_they_match_nothing) {
  QuantizeModelOptions chosen = options();
  chosen.ignore = {"blk.0.attn_k"};
  chosen.use = {{"*.ffn_*", WeightFormat::mxfp4}};
  const GgufFile out = quantized(small_model(), chosen);
  EXPECT_EQ(out.find("blk.0.attn_k.weight")->entry->type, GgufType::q8_0);
  EXPECT_EQ(planned("blk.0.attn_k.weight").reason, "ignored by 'blk.0.attn_k'");
  EXPECT_EQ(out.find("blk.0.attn_q.weight")->entry->type, GgufType::nvfp4);
  EXPECT_EQ(out.find("blk.0.ffn_up.weight")->entry->type, GgufType::mxfp4);
  EXPECT_EQ(out.find("blk.0.ffn_up.scale"), nullptr);
  fs::remove(chosen.output);
  chosen.ignore = {"model.layers.0.*"};
  expect_failure(chosen, ErrorCode::invalid_argument, "names are those of the file");
  chosen.ignore = {};
  chosen.use = {{"*norm*", WeightFormat::mxfp4}};
  expect_failure(chosen, ErrorCode::invalid_argument, "gives no layer its format");
}

TEST_F(GgufOutput, a_head_that_is_named_is_quantized_to_mxfp4) {
  GgufBuilder builder = small_model();
  builder.tensor("output.weight", GgufType::f32, {64, 6}, weights(6, 64, 3));
  EXPECT_EQ(quantized(builder, Format::mxfp4).find("output.weight")->entry->type, GgufType::f32);
  QuantizeModelOptions named = options(Format::mxfp4);
  named.include = {"output", "blk.*"};
  EXPECT_EQ(quantized(builder, named).find("output.weight")->entry->type, GgufType::mxfp4);
}

TEST_F(GgufOutput, parts_of_a_split_file_become_one) {
  for (int part = 0; part < 2; ++part) {
    GgufBuilder builder;
    if (part == 0) builder = small_metadata("llama");
    builder.value("split.no", gguf_number<std::uint16_t>(GgufValueType::u16, part));
    builder.value("split.count", gguf_number<std::uint16_t>(GgufValueType::u16, 2));
    builder.value("split.tensors.count", gguf_number<std::int32_t>(GgufValueType::i32, 2));
    builder.tensor("blk." + std::to_string(part) + ".attn_q.weight", GgufType::f32, {64, 3},
                   weights(3, 64, part));
    write_file(folder_ / ("m-0000" + std::to_string(part + 1) + "-of-00002.gguf"), builder.file());
  }
  QuantizeModelOptions both = options();
  both.input = folder_ / "m-00001-of-00002.gguf";
  conversion_ = convert_model(both);
  const GgufFile out = take(open_gguf(both.output));
  EXPECT_EQ(out.parts.size(), 1u);
  EXPECT_EQ(out.tensors.size(), 4u);
  EXPECT_EQ(out.value("split.count"), nullptr);
  EXPECT_TRUE(notes("the 2 parts of the input become one file"));
}

TEST_F(GgufOutput, the_same_bytes_with_any_number_of_threads) {
  GgufBuilder builder = small_metadata("llama");
  builder.tensor("blk.0.ffn_up.weight", GgufType::f32, {1024, 2100}, weights(2100, 1024, 1))
      .tensor("blk.0.ffn_down.weight", GgufType::f32, {std::uint64_t{1} << 21, 1},
              weights(1, std::int64_t{1} << 21, 2));
  quantized(builder);
  const std::string two = read_file(options().output);
  QuantizeModelOptions one = options();
  one.threads = 1;
  quantized(builder, one);
  EXPECT_TRUE(read_file(one.output) == two);
}

TEST_F(GgufOutput, refuses_what_it_cannot_do_before_a_byte_is_written) {
  write_file(folder_ / "in.gguf", small_model().file());
  QuantizeModelOptions there = options();
  write_file(there.output, "mine");
  expect_failure(there, ErrorCode::invalid_argument, "is there already");
  EXPECT_EQ(read_file(there.output), "mine");
  QuantizeModelOptions resumed = options();
  fs::remove(there.output);
  resumed.resume = true;
  expect_failure(resumed, ErrorCode::invalid_argument, "run again without --resume");
  QuantizeModelOptions nowhere = options();
  nowhere.output = folder_ / "no" / "out.gguf";
  expect_failure(nowhere, ErrorCode::invalid_argument, "make it first");
  QuantizeModelOptions itself = options();
  itself.output = itself.input;
  expect_failure(itself, ErrorCode::invalid_argument, "is the input");
  write_file(folder_ / "model.safetensors", safetensors_file("{}"));
  QuantizeModelOptions folder = options();
  folder.input = folder_.path() / "model.safetensors";
  expect_failure(folder, ErrorCode::bad_input, "there is no config.json");
  QuantizeModelOptions adapted = options();
  adapted.lora = {{"adapter", 1}};
  expect_failure(adapted, ErrorCode::invalid_argument, "leave out --lora");
  QuantizeModelOptions told = options();
  told.experts = ExpertOrder::halves;
  expect_failure(told, ErrorCode::invalid_argument, "leave out --experts");
  EXPECT_FALSE(fs::exists(there.output));
}

TEST_F(GgufOutput, nothing_is_left_of_a_run_that_was_stopped_or_failed) {
  write_file(folder_ / "in.gguf", small_model().file());
  const auto stop = [](std::int64_t, std::int64_t, std::string_view) { return false; };
  EXPECT_THROW(convert_model(options(), stop), Error);
  GgufBuilder bad = small_model();
  std::string values = weights(2, 64, 1);
  const std::uint32_t nan = 0x7FC00000;
  std::memcpy(values.data() + 400, &nan, 4);
  bad.tensor("blk.3.attn_q.weight", GgufType::f32, {64, 2}, values);
  write_file(folder_ / "in.gguf", bad.file());
  expect_failure(options(), ErrorCode::bad_input, "blk.3.attn_q.weight");
  GgufBuilder wrong = small_model();
  wrong.tensor("blk.0.attn_q.scale", GgufType::f16, {1}, std::string(2, 1));
  write_file(folder_ / "in.gguf", wrong.file());
  expect_failure(options(), ErrorCode::bad_input, "blk.0.attn_q.scale");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace microscale
