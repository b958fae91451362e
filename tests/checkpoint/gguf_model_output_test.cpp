// GGUF files made of model folders: opened again they are the folder they were made of.
#include "checkpoint/gguf_model_output.hpp"

#include <gtest/gtest.h>

#include "checkpoint/containers/gguf_file.hpp"
#include "checkpoint/convert.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/weight_reader.hpp"
#include "llama_models.hpp"
#include "microscale/quantize.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using namespace testing;

const std::string layer = "model.layers.1.";

std::vector<float> values_in(const QuantizedFolder& folder, const std::string& name) {
  const LogicalTensor* tensor = folder.find(name);
  if (!tensor) {
    ADD_FAILURE() << name << " is not there";
    return {};
  }
  PieceData data;
  std::vector<float> values;
  for (const Piece& piece : pieces_of(*tensor)) {
    take(read_piece(folder, piece, data));
    values.insert(values.end(), data.values.begin(), data.values.end());
  }
  return values;
}

class GgufModelOutput : public ::testing::Test {
 protected:
  QuantizeModelOptions options(Format format = Format::nvfp4) const {
    QuantizeModelOptions options = options_for(folder_, format);
    options.output = folder_ / "out.gguf";
    options.container = Container::gguf;
    return options;
  }
  GgufFile quantized(const QuantizeModelOptions& options) {
    std::filesystem::remove(options.output);
    conversion_ = convert_model(options);
    return take(open_gguf(options.output));
  }
  GgufFile quantized(const TestModel& model, Format format = Format::nvfp4) {
    std::filesystem::remove_all(folder_ / "in");
    model.write(folder_ / "in");
    return quantized(options(format));
  }
  void expect_refused(const TestModel& model, const std::string& phrase) {
    std::filesystem::remove_all(folder_ / "in");
    model.write(folder_ / "in");
    try {
      plan_quantize_model(options());
      ADD_FAILURE() << "planned; wanted: " << phrase;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(phrase), std::string::npos) << error.what();
    }
  }
  ::testing::AssertionResult notes(const std::string& phrase) const {
    for (const std::string& notice : conversion_.plan.notices) {
      if (notice.find(phrase) != std::string::npos) return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << "no notice has: " << phrase;
  }

  const TemporaryFolder folder_;
  Conversion conversion_;
};

// The same weights in compressed-tensors have the same codes: MXFP4 knows no other tensors.
TEST_F(GgufModelOutput, opened_again_it_is_the_folder_in_every_architecture) {
  for (const char* type : {"llama", "qwen2", "qwen3", "qwen3_moe", "gemma3_text"}) {
    const TestModel model = language_model(type);
    const GgufFile file = quantized(model, Format::mxfp4);
    QuantizeModelOptions other = options_for(folder_, Format::mxfp4);
    std::filesystem::remove_all(other.output);
    convert_model(other);
    const QuantizedFolder gguf = take(open_quantized_folder(folder_ / "out.gguf"));
    const QuantizedFolder wanted = take(open_quantized_folder(folder_ / "out"));
    EXPECT_EQ(gguf.tensors.size(), wanted.tensors.size()) << type;
    for (const LogicalTensor& tensor : wanted.tensors) {
      const auto found = values_in(gguf, tensor.name), values = values_in(wanted, tensor.name);
      ASSERT_EQ(found.size(), values.size()) << type << " " << tensor.name;
      const bool plus_one = std::string_view(type) == "gemma3_text" && tensor.shape.size() == 1;
      for (std::size_t i = 0; i < found.size(); ++i)  // 1 + value is rounded to FP32
        ASSERT_NEAR(found[i], values[i], plus_one ? 0x1p-24 : 0) << type << " " << tensor.name;
    }
    EXPECT_EQ(file.value("general.file_type")->whole(), 38u);
    EXPECT_EQ(file.find("blk.1.attn_norm.weight")->entry->type, GgufType::f32);
    EXPECT_EQ(file.find("token_embd.weight")->entry->type, GgufType::bf16);
    EXPECT_EQ(file.find("blk.0.attn_v.weight")->entry->type, GgufType::mxfp4);
  }
}

TEST_F(GgufModelOutput, nvfp4_has_a_scale_for_each_tensor) {
  const TestModel model = language_model("llama");
  const GgufFile file = quantized(model);
  const QuantizedFolder gguf = take(open_quantized_folder(folder_ / "out.gguf"));
  for (const std::string name : {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                 "mlp.gate_proj.weight", "mlp.down_proj.weight"}) {
    const auto in = [&]() -> const TestTensor& {
      for (const TestTensors& shard : model.shards) {
        if (const auto found = shard.find(layer + name); found != shard.end()) return found->second;
      }
      throw std::runtime_error(name);
    }();
    std::vector<float> values = values_of(in);
    const std::int64_t rows = in.shape[0], cols = in.shape[1];
    BlockTensor tensor = quantize({.input = {values.data(), DType::f32, rows, cols, cols}});
    const float scale = std::exchange(tensor.global_scale, 1.0f);
    dequantize(tensor.view(), {values.data(), DType::f32, rows, cols, cols});
    for (float& value : values) value *= scale;
    EXPECT_EQ(values_in(gguf, layer + name), values) << name;
  }
  EXPECT_EQ(file.find("blk.1.attn_q.scale")->entry->shape, std::vector<std::int64_t>{1});
}

TEST_F(GgufModelOutput, experts_are_stacked_and_have_a_scale_each) {
  const GgufFile file = quantized(language_model("qwen3_moe"));
  EXPECT_EQ(file.find("blk.0.ffn_up_exps.weight")->entry->shape,
            (std::vector<std::int64_t>{llama_experts, llama_inner, llama_hidden}));
  EXPECT_EQ(file.find("blk.0.ffn_up_exps.scale")->entry->shape,
            std::vector<std::int64_t>{llama_experts});
  EXPECT_EQ(file.find("blk.0.ffn_gate_inp.weight")->entry->type, GgufType::f32);
  // Kept, they are stacked too.
  QuantizeModelOptions kept = options();
  kept.ignore = {"*.experts.*"};
  const GgufFile dense = quantized(kept);
  EXPECT_EQ(dense.find("blk.0.ffn_up_exps.weight")->entry->type, GgufType::bf16);
  const QuantizedFolder before = take(open_quantized_folder(folder_ / "in"));
  const QuantizedFolder after = take(open_quantized_folder(folder_ / "out.gguf"));
  for (const char* expert : {"0.up_proj.weight", "2.down_proj.weight"}) {
    const std::string name = layer + "mlp.experts." + expert;
    EXPECT_EQ(values_in(after, name), values_in(before, name));
  }
}

TEST_F(GgufModelOutput, experts_in_one_tensor_are_taken_apart_and_stacked) {
  TestModel model = language_model("qwen3_moe");
  for (TestTensors& shard : model.shards) {
    std::erase_if(
        shard, [](const auto& each) { return each.first.find(".experts.") != std::string::npos; });
  }
  for (const std::string of : {"model.layers.0.mlp.experts.", "model.layers.1.mlp.experts."}) {
    model.shards[0][of + "gate_up_proj"] =
        random_tensor(StoredType::bf16, {llama_experts, 2 * llama_inner, llama_hidden}, 70);
    model.shards[0][of + "down_proj"] =
        random_tensor(StoredType::bf16, {llama_experts, llama_hidden, llama_inner}, 71);
  }
  quantized(model, Format::mxfp4);
  QuantizeModelOptions other = options_for(folder_, Format::mxfp4);
  convert_model(other);
  const QuantizedFolder gguf = take(open_quantized_folder(folder_ / "out.gguf"));
  const QuantizedFolder wanted = take(open_quantized_folder(folder_ / "out"));
  for (const LogicalTensor& tensor : wanted.tensors)
    EXPECT_EQ(values_in(gguf, tensor.name), values_in(wanted, tensor.name)) << tensor.name;
}

TEST_F(GgufModelOutput, layers_whose_scale_llama_cpp_leaves_out_become_mxfp4) {
  for (const char* type : {"qwen2", "gemma3_text"}) {
    const GgufFile file = quantized(language_model(type));
    EXPECT_EQ(file.find("blk.0.ffn_up.weight")->entry->type, GgufType::mxfp4);
    EXPECT_EQ(file.find("blk.0.attn_q.weight")->entry->type, GgufType::nvfp4);
    EXPECT_TRUE(notes("so 6 weights of these become MXFP4")) << type;
  }
}

TEST_F(GgufModelOutput, what_is_kept_is_rotated_shifted_and_widened) {
  TestModel model = language_model("llama");
  model.write(folder_ / "in");
  QuantizeModelOptions kept = options();
  kept.ignore = {"*.q_proj", "*.k_proj", "*.v_proj"};
  const GgufFile file = quantized(kept);
  EXPECT_EQ(file.find("blk.0.attn_q.weight")->entry->type, GgufType::bf16);
  const QuantizedFolder before = take(open_quantized_folder(folder_ / "in"));
  const QuantizedFolder after = take(open_quantized_folder(folder_ / "out.gguf"));
  for (const char* name : {"self_attn.q_proj.weight", "self_attn.k_proj.weight"})
    EXPECT_EQ(values_in(after, layer + name), values_in(before, layer + name));
  // Rows of a head in turn: 0, 16, 1, 17, ...
  const auto rows = values_in(before, "model.layers.0.self_attn.q_proj.weight");
  std::vector<std::uint8_t> second(2 * llama_hidden);
  take(read_gguf(file, *file.find("blk.0.attn_q.weight"), 2 * llama_hidden, second));
  std::uint16_t bits = 0;
  std::memcpy(&bits, second.data(), 2);
  EXPECT_EQ(bf16_to_float(bits), rows[16 * llama_hidden]);
}

TEST_F(GgufModelOutput, metadata_says_how_the_model_is_built) {
  const GgufFile file = quantized(language_model("llama"));
  EXPECT_EQ(file.value("general.architecture")->text(), "llama");
  EXPECT_EQ(file.value("general.name")->text(), "in");
  EXPECT_EQ(file.value("llama.vocab_size")->whole(), 24u);
  EXPECT_EQ(file.value("tokenizer.ggml.model")->text(), "gpt2");
  EXPECT_EQ(file.value("tokenizer.ggml.eos_token_id")->whole(), 23u);
  EXPECT_EQ(file.value("tokenizer.chat_template")->text(), "{{ messages }}");
}

TEST_F(GgufModelOutput, a_tied_head_buffers_and_an_encoder_stay_behind) {
  TestModel model = language_model("gemma3_text");
  TestTensors& tensors = model.shards[0];
  tensors["lm_head.weight"] = random_tensor(StoredType::bf16, {llama_words, llama_hidden}, 90);
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] =
      random_tensor(StoredType::f32, {16}, 91);
  tensors["vision_tower.vision_model.post_layernorm.weight"] =
      random_tensor(StoredType::bf16, {64}, 92);
  model.other_files["notes.txt"] = "x";
  const GgufFile file = quantized(model);
  EXPECT_EQ(file.find("output.weight"), nullptr);
  EXPECT_TRUE(notes("1 tensor is left out: the head is the embedding"));
  EXPECT_TRUE(notes("1 tensor is left out: part of the vision encoder"));
  EXPECT_TRUE(notes("stays behind: 'notes.txt'"));
}

TEST_F(GgufModelOutput, what_does_not_go_into_a_file_is_refused) {
  TestModel model = language_model("llama");
  model.config = R"({"model_type": "gpt_neox", "hidden_size": 128})";
  expect_refused(model, "config.json says 'gpt_neox'");
  model = language_model("llama");
  model.shards[0]["model.layers.0.self_attn.sinks"] = random_tensor(StoredType::bf16, {4}, 1);
  expect_refused(model, "have no tensor 'model.layers.0.self_attn.sinks'");
  model = language_model("qwen3_moe");
  for (TestTensors& shard : model.shards) {
    std::erase_if(shard, [](const auto& each) {
      return each.first.find(".experts.2.") != std::string::npos;
    });
  }
  model.config.replace(model.config.find("\"num_experts\": 3"), 16, "\"num_experts\": 2");
  plan_quantize_model([&] {
    std::filesystem::remove_all(folder_ / "in");
    model.write(folder_ / "in");
    return options();
  }());
  model.config.replace(model.config.find("\"num_experts\": 2"), 16, "\"num_experts\": 1");
  expect_refused(model, "would hold 2 experts, and config.json says 1");
  model = language_model("llama");
  model.config.replace(model.config.find("\"num_key_value_heads\": 2"), 24,
                       "\"num_key_value_heads\": 3");
  expect_refused(model, "are not 3 heads of an even number of rows");
}

TEST_F(GgufModelOutput, convert_puts_codes_into_a_file_and_back) {
  for (const Format format : {Format::nvfp4, Format::mxfp4}) {
    language_model("llama").write(folder_ / "in");
    QuantizeModelOptions first = options_for(folder_, format);
    std::filesystem::remove_all(first.output);
    convert_model(first);
    std::filesystem::remove(folder_ / "out.gguf");
    ConvertModelOptions there;
    there.input = first.output;
    there.output = folder_ / "out.gguf";
    there.container = Container::gguf;
    there.exact = true;
    const ConvertedModel converted = convert_model(there);
    EXPECT_EQ(converted.weights, 14);
    EXPECT_TRUE(converted.same_values());
    std::filesystem::remove_all(folder_ / "back");
    const ConvertedModel back =
        convert_model({.input = there.output, .output = folder_ / "back", .exact = true});
    EXPECT_EQ(back.hash_after, converted.hash_before);
    const auto before = read_tensors(first.output), after = read_tensors(folder_ / "back");
    for (const auto& [name, tensor] : before) {
      if (!name.ends_with("_scale") && !name.ends_with("_packed")) continue;
      EXPECT_EQ(after.at(name), tensor) << name;
    }
  }
}

TEST_F(GgufModelOutput, convert_expands_what_a_graph_has_no_scale_for) {
  language_model("qwen2").write(folder_ / "in");
  QuantizeModelOptions first = options_for(folder_, Format::nvfp4);
  convert_model(first);
  ConvertModelOptions there;
  there.input = first.output;
  there.output = folder_ / "out.gguf";
  there.container = Container::gguf;
  EXPECT_TRUE(convert_model(there).same_values());
  const GgufFile file = take(open_gguf(there.output));
  EXPECT_EQ(file.find("blk.0.ffn_up.weight")->entry->type, GgufType::bf16);
  EXPECT_EQ(file.find("blk.0.attn_q.weight")->entry->type, GgufType::nvfp4);
  there.input = there.output;
  there.output = folder_ / "again.gguf";
  expect_error(ErrorCode::invalid_argument, "is a GGUF file already",
               [&] { convert_model(there); });
}

}  // namespace
}  // namespace microscale
