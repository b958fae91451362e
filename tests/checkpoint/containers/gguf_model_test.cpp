// Whole GGUF files through the operations that take a model folder.
#include "checkpoint/containers/gguf_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/containers/gguf_small.hpp"
#include "checkpoint/model_builder.hpp"
#include "checkpoint/inspect_model.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/support.hpp"
#include "checkpoint/weight_reader.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {
namespace {

using namespace testing;

std::string small_file(const std::string& architecture = "llama") {
  GgufBuilder builder = small_metadata(architecture);
  return add_small_tensors(add_small_tokenizer(builder, "smollm")).file();
}

std::vector<float> values_of(const QuantizedFolder& folder, const std::string& name) {
  PieceData data;
  std::vector<float> values;
  for (const Piece& piece : pieces_of(*folder.find(name))) {
    take(read_piece(folder, piece, data));
    values.insert(values.end(), data.values.begin(), data.values.end());
  }
  return values;
}

const std::string* made(const ModelFolder& model, const std::string& name) {
  const auto found = std::find_if(model.made_files.begin(), model.made_files.end(),
                                  [&](const MadeFile& file) { return file.name == name; });
  return found == model.made_files.end() ? nullptr : &found->text;
}

class GgufModel : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) {
    write_file(folder_ / "m.gguf", bytes);
    return folder_ / "m.gguf";
  }
  const TemporaryFolder folder_;
};

TEST_F(GgufModel, a_file_is_opened_as_the_folder_that_it_stands_for) {
  const auto result = open_model_folder(write(small_file()));
  ASSERT_TRUE(succeeds(result));
  const ModelFolder& model = result.value();
  EXPECT_EQ(model.shards.size(), 1u);
  EXPECT_EQ(model.shards[0].name, "model.safetensors");
  EXPECT_TRUE(model.index_name.empty());
  EXPECT_TRUE(model.config_text);
  for (const char* name : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_TRUE(made(model, name)) << name;
  }
  const ModelTensor* norm = model.find("model.norm.weight");
  ASSERT_TRUE(norm);
  EXPECT_EQ(norm->entry->type, StoredType::f32);
  EXPECT_EQ(norm->entry->shape, (std::vector<std::int64_t>{64}));
  EXPECT_EQ(model.gguf_sources.size(), 8u);
  EXPECT_EQ(model.gguf_metadata.front(),
            std::pair(std::string("general.architecture"), std::string("llama")));
}

TEST_F(GgufModel, weights_have_names_shapes_and_values_of_the_dense_model) {
  const QuantizedFolder folder = take(open_quantized_folder(write(small_file())));
  EXPECT_EQ(folder.tensors.size(), 11u);
  const LogicalTensor* value = folder.find("model.layers.0.self_attn.v_proj.weight");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->coding_name(), "GGUF Q8_0");
  EXPECT_EQ(value->shape, (std::vector<std::int64_t>{32, 64}));
  const std::vector<float> values = values_of(folder, value->name);
  ASSERT_EQ(values.size(), 32u * 64);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], (static_cast<float>(i % 32) - 16) / 64) << i;
  const ModelSummary summary = summarize_model(folder);
  EXPECT_EQ(summary.tensors[0].file, "m.gguf");
  EXPECT_FALSE(summary.metadata.empty());
}

TEST_F(GgufModel, dequantize_writes_a_folder_for_transformers) {
  const DequantizedModel written = dequantize_model(
      {.input = write(small_file()), .output = folder_ / "out", .dtype = DType::f32});
  EXPECT_NE(written.notices[0].find("a llama model"), std::string::npos);
  const QuantizedFolder gguf = take(open_quantized_folder(folder_ / "m.gguf"));
  const QuantizedFolder dense = take(open_quantized_folder(folder_ / "out"));
  EXPECT_FALSE(dense.quantized());
  EXPECT_TRUE(dense.model.config_text);
  ASSERT_EQ(dense.tensors.size(), gguf.tensors.size());
  for (const LogicalTensor& tensor : gguf.tensors) {
    ASSERT_TRUE(dense.find(tensor.name)) << tensor.name;
    EXPECT_EQ(dense.find(tensor.name)->shape, tensor.shape);
    EXPECT_EQ(values_of(dense, tensor.name), values_of(gguf, tensor.name)) << tensor.name;
  }
  EXPECT_EQ(read_file(folder_ / "out" / "tokenizer.json"), *made(gguf.model, "tokenizer.json"));
}

TEST_F(GgufModel, quantize_takes_one_and_goes_on_with_a_finished_run) {
  QuantizeModelOptions options;
  options.input = write(small_file());
  options.output = folder_ / "out";
  options.format = Format::mxfp4;
  const ConversionPlan plan = quantize_model(options);
  EXPECT_EQ(std::count_if(
                plan.tensors.begin(), plan.tensors.end(),
                [](const TensorPlan& tensor) { return tensor.treatment == Treatment::quantize; }),
            7);
  const QuantizedFolder quantized = take(open_whole_quantized_folder(folder_ / "out"));
  EXPECT_EQ(quantized.modules.size(), 7u);
  EXPECT_EQ(quantized.find("model.embed_tokens.weight")->stored->entry->type, StoredType::bf16);
  std::filesystem::remove(folder_ / "out" / "tokenizer.json");
  options.resume = true;
  quantize_model(options);
  EXPECT_FALSE(read_file(folder_ / "out" / "tokenizer.json").empty());
}

TEST_F(GgufModel, split_files_become_shards_with_an_index) {
  const auto part = [](std::uint16_t number, bool first) {
    GgufBuilder builder = first ? small_metadata("llama") : GgufBuilder();
    builder.value("split.no", gguf_number(GgufValueType::u16, number));
    builder.value("split.count", gguf_number<std::uint16_t>(GgufValueType::u16, 2));
    if (first) {
      builder.tensor("token_embd.weight", GgufType::q8_0, {64, 6}, q8_0_blocks(12));
    } else {
      builder.tensor("blk.0.attn_v.weight", GgufType::q8_0, {64, 32}, q8_0_blocks(64));
    }
    return builder.file();
  };
  write_file(folder_ / "m-00001-of-00002.gguf", part(0, true));
  write_file(folder_ / "m-00002-of-00002.gguf", part(1, false));
  dequantize_model({.input = folder_ / "m-00002-of-00002.gguf", .output = folder_ / "out"});
  const ModelFolder out = take(open_model_folder(folder_ / "out"));
  ASSERT_EQ(out.shards.size(), 2u);
  EXPECT_EQ(out.shards[1].name, "model-00002-of-00002.safetensors");
  EXPECT_EQ(out.index_name, "model.safetensors.index.json");
}

TEST_F(GgufModel, what_is_no_known_model_keeps_its_names) {
  dequantize_model({.input = write(small_file("bert")), .output = folder_ / "out"});
  const ModelFolder out = take(open_model_folder(folder_ / "out"));
  EXPECT_TRUE(out.find("blk.0.attn_q.weight"));
  EXPECT_FALSE(out.config_text);
  EXPECT_TRUE(out.other_files.empty());
}

TEST_F(GgufModel, a_file_without_quantized_weights_is_written_too) {
  GgufBuilder builder;
  builder.tensor("a", GgufType::f16, {2, 2}, "abcdefgh");
  builder.tensor("e", GgufType::q8_0, {32, 0}, "");
  dequantize_model({.input = write(builder.file()), .output = folder_ / "out"});
  const ModelFolder out = take(open_model_folder(folder_ / "out"));
  EXPECT_EQ(out.find("a")->entry->type, StoredType::f16);
  EXPECT_EQ(out.find("e")->entry->shape, (std::vector<std::int64_t>{0, 32}));
}

TEST_F(GgufModel, types_without_a_decoder_are_named) {
  GgufBuilder builder;
  builder.tensor("w", GgufType::iq2_xs, {256, 1}, std::string(74, 'x'));
  const auto path = write(builder.file());
  EXPECT_TRUE(succeeds(open_quantized_folder(path)));
  try {
    dequantize_model({.input = path, .output = folder_ / "out"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("IQ2_XS, whose values are not decoded here"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(GgufModel, a_model_without_tokenizer_says_so) {
  GgufBuilder builder = small_metadata("qwen3");
  const auto model = open_model_folder(write(add_small_tensors(builder).file()));
  ASSERT_TRUE(succeeds(model));
  EXPECT_NE(model.value().notices[0].find("no tokenizer.json is written"), std::string::npos);
  EXPECT_FALSE(made(model.value(), "tokenizer.json"));
}

TEST_F(GgufModel, failures_name_the_file) {
  GgufBuilder builder = small_metadata("llama");
  EXPECT_TRUE(fails_with(open_model_folder(write(builder.file())), "m.gguf': the file has no"));
  EXPECT_TRUE(fails_with(open_model_folder(write("GGUF")), "m.gguf': "));
}

// Of all types that are not decoded, whatever the tensor would become.
TEST_F(GgufModel, types_that_are_not_decoded_are_refused_by_quantize_and_named_by_inspect) {
  for (const char* name : {"output.weight", "blk.0.attn_q.weight"}) {
    GgufBuilder builder = small_metadata("bert");
    builder.tensor("blk.0.ffn_up.weight", GgufType::q8_0, {64, 64}, q8_0_blocks(128));
    builder.tensor(name, GgufType::iq2_xxs, {256, 32}, std::string(32 * 66, 'x'));
    QuantizeModelOptions options;
    options.input = write(builder.file());
    options.output = folder_ / "out";
    const auto refused = [&] {
      testing::expect_error(ErrorCode::bad_input,
                            std::string("'") + name +
                                "': is of GGUF's type IQ2_XXS, whose values "
                                "are not decoded here",
                            [&] { quantize_model(options); });
      EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
    };
    refused();
    options.ignore = {std::string(name).substr(0, std::string(name).size() - 7)};
    refused();
    const ModelSummary summary = summarize_model(take(open_quantized_folder(options.input)));
    const auto listed =
        std::find_if(summary.tensors.begin(), summary.tensors.end(),
                     [&](const TensorSummary& tensor) { return tensor.name == name; });
    ASSERT_NE(listed, summary.tensors.end());
    EXPECT_EQ(listed->format, "GGUF IQ2_XXS");
    EXPECT_EQ(listed->shape, (std::vector<std::int64_t>{32, 256}));
    EXPECT_EQ(listed->elements, 32 * 256);
  }
}

TEST_F(GgufModel, layers_that_the_metadata_has_and_the_file_has_not_are_missing) {
  GgufBuilder builder;
  builder.value("general.architecture", gguf_text("llama"));
  for (const auto& [key, value] :
       {std::pair("block_count", 3u), std::pair("context_length", 512u),
        std::pair("embedding_length", 64u), std::pair("feed_forward_length", 96u),
        std::pair("attention.head_count", 4u), std::pair("attention.head_count_kv", 2u)}) {
    builder.value(std::string("llama.") + key, gguf_u32(value));
  }
  builder.value("llama.attention.layer_norm_rms_epsilon", gguf_number(GgufValueType::f32, 1e-5f));
  QuantizeModelOptions options;
  options.input = write(add_small_tensors(add_small_tokenizer(builder, "smollm")).file());
  options.output = folder_ / "out";
  testing::expect_error(ErrorCode::bad_input, "of 3 layers of 'model.layers' 2 are missing: 1, 2",
                        [&] { quantize_model(options); });
}

// F32, F16 and BF16 are no codes, even where rows are sorted or 1 is taken from a norm.
TEST_F(GgufModel, plain_floats_are_not_called_quantized) {
  GgufBuilder builder = small_metadata("llama");
  add_small_tokenizer(builder, "smollm");
  const auto add = [&](const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    builder.tensor(name, GgufType::f32, {cols, rows},
                   counting(static_cast<std::int64_t>(rows * cols), 1));
  };
  add("token_embd.weight", 6, 64);
  add("blk.0.attn_q.weight", 64, 64);
  add("blk.0.attn_k.weight", 32, 64);
  add("blk.0.attn_v.weight", 32, 64);
  QuantizeModelOptions options;
  options.input = write(builder.file());
  options.output = folder_ / "out";
  options.allow_incomplete = true;
  for (const std::string& notice : plan_quantize_model(options).notices) {
    EXPECT_EQ(notice.find("quantized already"), std::string::npos) << notice;
  }
}

}  // namespace
}  // namespace microscale
