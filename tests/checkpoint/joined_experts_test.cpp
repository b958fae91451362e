#include "checkpoint/joined_experts.hpp"

#include <gtest/gtest.h>

#include "checkpoint/convert.hpp"
#include "checkpoint/weight_reader.hpp"
#include "gpt_oss_model.hpp"

namespace microscale {
namespace {

using namespace testing;

// The same model with each expert by itself, all dense.
TestModel apart(TestModel model, const std::string& module, const ExpertLayout& layout) {
  const TestTensors fused = model.shards[0];
  for (const auto& [name, tensor] : fused) {
    const auto part = fused_expert_part(name);
    if (!part) continue;
    model.shards[0].erase(name);
    const std::vector<float> values = values_of(tensor);
    for (const MatrixSlice& slice : slice_experts(name, *part, layout)) {
      const bool bias = slice.cols == 1;
      TestTensor one{tensor.type, {slice.rows}, ""};
      if (!bias) one.shape.push_back(slice.cols);
      for (std::int64_t row = 0; row < slice.rows; ++row) {
        for (std::int64_t col = 0; col < slice.cols; ++col) {
          const auto at = static_cast<std::size_t>(slice.element(row, col)) * 2;
          one.bytes += tensor.bytes.substr(at, 2);
        }
      }
      EXPECT_TRUE(slice.module.starts_with(module)) << slice.module;
      model.shards[0][slice.module + (bias ? ".bias" : ".weight")] = std::move(one);
    }
  }
  return model;
}

// The fused tensors with their last two dimensions swapped.
TestModel turned(TestModel model) {
  for (auto& [name, tensor] : model.shards[0]) {
    if (!fused_expert_part(name) || tensor.shape.size() != 3) continue;
    const std::string from = tensor.bytes;
    const auto [count, rows, cols] = std::tuple(tensor.shape[0], tensor.shape[1], tensor.shape[2]);
    for (std::int64_t i = 0; i < count * rows * cols; ++i) {
      const std::int64_t to = i / (rows * cols) * rows * cols + i % cols * rows + i / cols % rows;
      tensor.bytes.replace(static_cast<std::size_t>(to) * 2, 2, from,
                           static_cast<std::size_t>(i) * 2, 2);
    }
    std::swap(tensor.shape[1], tensor.shape[2]);
  }
  return model;
}

ExpertLayout layout_of(bool interleaved) {
  return {.experts = experts,
          .inner = inner,
          .hidden = hidden,
          .transposed = true,
          .interleaved = interleaved};
}

void expect_the_fused_tensors(const TestModel& fused, const QuantizedFolder& folder) {
  for (const auto& [name, tensor] : fused.shards[0]) {
    const LogicalTensor* found = folder.find(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->shape, tensor.shape) << name;
    if (!fused_expert_part(name)) continue;
    ASSERT_NE(found->weight, nullptr) << name;
    // Runs of any length from any place on.
    const std::int64_t count = found->elements();
    for (const std::int64_t run : {count, std::int64_t{1}, std::int64_t{193}}) {
      for (std::int64_t first = 0; first < count; first += run == 1 ? count / 7 : run) {
        const std::int64_t some = std::min(run, count - first);
        std::vector<std::uint8_t> bytes(static_cast<std::size_t>(some) * 2);
        ASSERT_TRUE(succeeds(found->weight->decode(first, some, bytes)));
        ASSERT_EQ(std::string(bytes.begin(), bytes.end()),
                  tensor.bytes.substr(static_cast<std::size_t>(first) * 2, bytes.size()))
            << name << " from " << first;
      }
    }
  }
  EXPECT_EQ(folder.tensors.size(), fused.shards[0].size());
}

TEST(JoinedExperts, are_the_tensors_that_they_were_taken_from) {
  const TestModel fused = gpt_oss();
  const TemporaryFolder place;
  apart(fused, moe, layout_of(true)).write(place / "m");
  QuantizedFolder folder = take(open_quantized_folder(place / "m"));
  ASSERT_TRUE(succeeds(join_experts(folder, "test")));
  expect_the_fused_tensors(fused, folder);
}

TEST(JoinedExperts, of_llama4_have_all_of_gate_before_all_of_up) {
  TestModel fused = gpt_oss();
  for (const char* name : {"gate_up_proj_bias", "down_proj_bias"})
    fused.shards[0].erase(moe + name);
  fused.config = R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
                     "num_local_experts": 3}})";
  const TemporaryFolder place;
  apart(fused, moe, layout_of(false)).write(place / "m");
  QuantizedFolder folder = take(open_quantized_folder(place / "m"));
  ASSERT_TRUE(succeeds(join_experts(folder, "test")));
  expect_the_fused_tensors(fused, folder);
}

// Gemma 4 and its like: [experts, 2 inner, hidden] and [experts, hidden, inner].
TEST(JoinedExperts, of_families_with_rows_of_outputs_are_stacked) {
  for (const std::string type : {"gemma4_text", "mistral4", "granitemoe"}) {
    TestModel fused = gpt_oss();
    for (const char* name : {"gate_up_proj_bias", "down_proj_bias"})
      fused.shards[0].erase(moe + name);
    fused = turned(std::move(fused));
    fused.config = R"({"model_type": ")" + type + R"(", "num_local_experts": 3})";
    ExpertLayout layout = layout_of(false);
    layout.transposed = false;
    const TemporaryFolder place;
    apart(fused, moe, layout).write(place / "m");
    QuantizedFolder folder = take(open_quantized_folder(place / "m"));
    EXPECT_FALSE(experts_left_apart(folder));
    ASSERT_TRUE(succeeds(join_experts(folder, "test")));
    expect_the_fused_tensors(fused, folder);
  }
}

TEST(JoinedExperts, of_families_that_cannot_be_joined_are_named) {
  TestModel model = apart(gpt_oss(), moe, layout_of(false));
  model.config = R"({"model_type": "jetmoe"})";
  const TemporaryFolder place;
  model.write(place / "m");
  QuantizedFolder folder = take(open_quantized_folder(place / "m"));
  ASSERT_TRUE(succeeds(join_experts(folder, "test")));
  const auto told = experts_left_apart(folder);
  ASSERT_TRUE(told.has_value());
  EXPECT_NE(told->find("transformers reads those of 'jetmoe' from one tensor"), std::string::npos);
}

TEST(JoinedExperts, families_that_transformers_joins_itself_stay_as_they_are) {
  TestModel fused = gpt_oss();
  fused.config = R"({"model_type": "qwen3_moe"})";
  const TemporaryFolder place;
  const TestModel model = apart(fused, moe, layout_of(true));
  model.write(place / "m");
  QuantizedFolder folder = take(open_quantized_folder(place / "m"));
  ASSERT_TRUE(succeeds(join_experts(folder, "test")));
  EXPECT_EQ(folder.tensors.size(), model.shards[0].size());
  EXPECT_FALSE(joined_layout_of("qwen3_moe"));
  EXPECT_TRUE(joined_layout_of("gpt_oss")->interleaved);
}

TEST(JoinedExperts, of_shapes_that_do_not_fit_are_named) {
  TestModel model = apart(gpt_oss(), moe, layout_of(true));
  model.shards[0][moe + "2.up_proj.bias"] = random_tensor(StoredType::bf16, {inner + 1}, 1);
  const TemporaryFolder place;
  model.write(place / "m");
  QuantizedFolder folder = take(open_quantized_folder(place / "m"));
  EXPECT_TRUE(fails_with(join_experts(folder, "test"), "2.up_proj.bias' has the shape [97]"));
}

TEST(JoinedExperts, numbers_that_no_expert_has_are_refused_or_none) {
  const TestModel model = apart(gpt_oss(), moe, layout_of(true));
  for (const std::string number : {"70000", "9223372036854775807"}) {
    TestModel odd = model;
    odd.shards[0][moe + number + ".up_proj.bias"] = random_tensor(StoredType::bf16, {inner}, 1);
    const TemporaryFolder place;
    odd.write(place / "m");
    QuantizedFolder folder = take(open_quantized_folder(place / "m"));
    EXPECT_TRUE(fails_with(join_experts(folder, "test"), "has no number of an expert"));
  }
  TestModel odd = model;
  odd.shards[0][moe + "01.up_proj.bias"] = random_tensor(StoredType::bf16, {inner}, 1);
  const TemporaryFolder place;
  odd.write(place / "m");
  QuantizedFolder folder = take(open_quantized_folder(place / "m"));
  ASSERT_TRUE(succeeds(join_experts(folder, "test")));
  EXPECT_NE(folder.find(moe + "01.up_proj.bias"), nullptr) << "it is nobody's";
}

std::vector<float> all_values(const QuantizedFolder& folder, const std::string& name) {
  PieceData data;
  std::vector<float> values;
  for (const Piece& piece : pieces_of(*folder.find(name))) {
    take(read_piece(folder, piece, data));
    values.insert(values.end(), data.values.begin(), data.values.end());
  }
  return values;
}

// What transformers would load at random otherwise.
TEST(JoinedExperts, dequantize_writes_them_in_every_format) {
  for (const Format format : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3}) {
    const TemporaryFolder place;
    const TestModel fused = gpt_oss();
    fused.write(place / "in");
    convert_model(options_for(place, format));
    DequantizeModelOptions options;
    options.input = place / "out";
    options.output = place / "dense";
    options.dtype = DType::f32;
    dequantize_model(options);
    const QuantizedFolder dense = take(open_quantized_folder(place / "dense"));
    const QuantizedFolder coded = take(open_quantized_folder(place / "out"));
    for (const auto& [name, tensor] : fused.shards[0]) {
      const LogicalTensor* found = dense.find(name);
      ASSERT_NE(found, nullptr) << name;
      EXPECT_EQ(found->shape, tensor.shape) << name;
    }
    EXPECT_EQ(dense.tensors.size(), fused.shards[0].size());
    for (const auto& [name, part] : {std::pair("gate_up_proj", ExpertPart::gate_up),
                                     std::pair("down_proj", ExpertPart::down)}) {
      const std::vector<float> values = all_values(dense, moe + name);
      for (const MatrixSlice& slice : slice_experts(moe + name, part, layout_of(true))) {
        const std::vector<float> wanted = all_values(coded, slice.module + ".weight");
        for (std::int64_t i = 0; i < slice.rows * slice.cols; ++i) {
          const std::int64_t element = slice.element(i / slice.cols, i % slice.cols);
          ASSERT_EQ(values[static_cast<std::size_t>(element)], wanted[static_cast<std::size_t>(i)])
              << slice.module;
        }
      }
    }
  }
}

}  // namespace
}  // namespace microscale
