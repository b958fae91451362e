#include "checkpoint/compare_models.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/small_model.hpp"
#include "checkpoint/tile.hpp"
#include "checkpoint/weight_reader.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::SmallModel;
using testing::TemporaryFolder;

using Strings = std::vector<std::string>;

ModelComparison compared(const SmallModel& a, const SmallModel& b, int threads = 0) {
  TemporaryFolder folder;
  a.write(folder / "a");
  b.write(folder / "b");
  return compare_models(take(open_quantized_folder(folder / "a")),
                        take(open_quantized_folder(folder / "b")), threads);
}

// One block each: 32 ones, but for 100 (clipped at 6) and 0.1 (flushed to zero).
SmallModel known_original() {
  std::vector<float> values(32, 1.0f);
  values[3] = -100.0f;
  values[20] = 0.1f;
  SmallModel model;
  model.add_floats("m.weight", {1, 32}, values);
  return model;
}

SmallModel known_mxfp4() {
  testing::Bytes codes(16, 0x22);
  codes[1] = 0xF2;
  codes[10] = 0x20;
  SmallModel model;
  model.add("m.weight_packed", StoredType::u8, {1, 16}, codes);
  model.add("m.weight_scale", StoredType::u8, {1, 1}, {127});
  return model;
}

TEST(CompareModels, measures_known_numbers) {
  const ModelComparison comparison = compared(known_original(), known_mxfp4());
  ASSERT_EQ(comparison.report.tensors.size(), 1u);
  const TensorReport& tensor = comparison.report.tensors[0];
  EXPECT_EQ(tensor.name, "m.weight");
  EXPECT_EQ(tensor.treatment, "mxfp4");
  EXPECT_EQ(tensor.bytes_before, 128u);
  EXPECT_EQ(tensor.bytes_after, 17u);
  EXPECT_EQ(tensor.blocks, 1);
  const double tenth = 0.1f;
  const double squared_error = 94.0 * 94.0 + tenth * tenth, squared = 30 + 10000 + tenth * tenth;
  EXPECT_DOUBLE_EQ(tensor.error.relative_mse(), squared_error / squared);
  EXPECT_DOUBLE_EQ(tensor.error.sqnr_db(), 10 * std::log10(squared / squared_error));
  EXPECT_DOUBLE_EQ(tensor.error.cosine(), (30 + 600) / std::sqrt(squared * (30 + 36)));
  EXPECT_EQ(tensor.error.max_error, 94.0);
  EXPECT_EQ(tensor.error.elements, 32u);
  EXPECT_EQ(tensor.error.clipped, 1u);
  EXPECT_EQ(tensor.error.flushed, 1u);
  EXPECT_EQ(tensor.scale_codes[127], 1u);
  EXPECT_EQ(tensor.element_codes[2], 30u);
  EXPECT_EQ(tensor.element_codes[15], 1u);
  EXPECT_EQ(tensor.element_codes[0], 1u);
  EXPECT_EQ(comparison.identical, 0);
}

TEST(CompareModels, clips_by_scale_and_global_scale) {
  SmallModel original, quantized;
  std::vector<float> values(16, 1.0f);
  values[0] = 6.5f;  // largest: 6 * 2 * 0.5
  values[1] = 6.0f;
  values[2] = -7.0f;
  original.add_floats("m.weight", {1, 16}, values);
  quantized.add("m.weight_packed", StoredType::u8, {1, 8}, testing::Bytes(8, 0x22));
  quantized.add("m.weight_scale", StoredType::f8_e4m3, {1, 1}, {0x40});  // 2
  quantized.add_floats("m.weight_global_scale", {1}, {2.0f});            // a divisor
  const ModelComparison comparison = compared(original, quantized);
  EXPECT_EQ(comparison.report.tensors[0].error.clipped, 2u);
  EXPECT_EQ(comparison.report.tensors[0].global_scale, 0.5f);
}

TEST(CompareModels, takes_the_dense_one_for_the_original_in_either_order) {
  const ModelComparison comparison = compared(known_mxfp4(), known_original());
  EXPECT_TRUE(comparison.swapped);
  EXPECT_EQ(comparison.report.tensors[0].error.max_error, 94.0);
  EXPECT_EQ(comparison.report.tensors[0].treatment, "mxfp4");
  EXPECT_EQ(comparison.report.bytes_before, 128u);
  EXPECT_FALSE(compared(known_mxfp4(), known_mxfp4()).swapped);
}

TEST(CompareModels, leaves_identical_tensors_out_of_the_total) {
  SmallModel a = known_original(), b = known_mxfp4();
  for (SmallModel* model : {&a, &b}) {
    model->add_floats("norm.weight", {4}, {1e6f, NAN, 0, -1});
    model->add("ids", StoredType::i64, {1}, testing::bytes_of(std::vector<std::int64_t>{5}));
  }
  const ModelComparison comparison = compared(a, b);
  EXPECT_EQ(comparison.identical, 2);
  ASSERT_EQ(comparison.report.tensors.size(), 3u);
  EXPECT_EQ(comparison.report.tensors[0].reason, "identical");
  EXPECT_FALSE(comparison.report.tensors[2].measured());
  EXPECT_EQ(total_error(comparison.report), comparison.report.tensors[1].error);
}

TEST(CompareModels, measures_dense_tensors_of_different_types_and_values) {
  SmallModel a, b;
  a.add_floats("x", {2}, {1.0f, 1.00390625f});
  b.add("x", StoredType::bf16, {2}, {0x80, 0x3F, 0x80, 0x3F});
  a.add_floats("y", {2}, {1.0f, 2.0f});
  b.add_floats("y", {2}, {1.0f, 2.5f});
  a.add("z", StoredType::i8, {2}, {1, 2});
  b.add("z", StoredType::i8, {2}, {1, 3});
  a.add("t", StoredType::i8, {2}, {1, 2});
  b.add_floats("t", {2}, {1.0f, 2.0f});
  const ModelComparison comparison = compared(a, b);
  EXPECT_EQ(comparison.report.tensors[0].reason, "i8 against f32 is not compared");
  EXPECT_EQ(comparison.report.tensors[1].error.max_error, 0.00390625);
  EXPECT_EQ(comparison.report.tensors[2].error.max_error, 0.5);
  EXPECT_EQ(comparison.report.tensors[3].reason, "i8 values differ");
  EXPECT_EQ(comparison.identical, 0);
}

TEST(CompareModels, lists_what_only_one_has_and_different_shapes) {
  SmallModel a = known_original(), b = known_mxfp4();
  a.add_floats("only.a", {1}, {1});
  b.add_floats("only.b", {1}, {1});
  a.add_floats("shape", {2, 2}, {1, 2, 3, 4});
  b.add_floats("shape", {4}, {1, 2, 3, 4});
  const ModelComparison comparison = compared(a, b);
  EXPECT_EQ(comparison.only_in_original, Strings{"only.a"});
  EXPECT_EQ(comparison.only_in_other, Strings{"only.b"});
  EXPECT_EQ(comparison.different_shapes,
            Strings{"'shape' is [2, 2] in the original and [4] in the other"});
}

TEST(CompareModels, refuses_models_without_a_common_name) {
  SmallModel b;
  b.add_floats("other", {1}, {1});
  try {
    compared(known_original(), b);
    FAIL() << "no failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("no tensor name in common"), std::string::npos);
  }
}

TEST(CompareModels, calls_files_by_their_names) {
  TemporaryFolder folder;
  SmallModel a = known_original(), b;
  b.add_floats("other", {1}, {1});
  a.write(folder.path());
  fs::rename(folder / "model.safetensors", folder / "a.safetensors");
  b.write(folder.path());
  fs::rename(folder / "model.safetensors", folder / "b.safetensors");
  try {
    compare_models(take(open_quantized_folder(folder / "a.safetensors")),
                   take(open_quantized_folder(folder / "b.safetensors")));
    FAIL() << "no failure";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("a.safetensors' and '"), message.npos) << message;
    EXPECT_NE(message.find("b.safetensors' have no"), message.npos) << message;
  }
}

TEST(CompareModels, gives_the_same_bits_at_any_number_of_threads_and_equals_one_pass) {
  const std::int64_t cols = 4096, rows = piece_elements / cols + 7;
  const std::vector<float> values = testing::gaussian(rows * cols, 11);
  SmallModel a, b;
  a.add_floats("m.weight", {rows, cols}, values);
  b.add_quantized("m", Format::nvfp4, rows, cols, values);
  const ErrorSums one = compared(a, b, 1).report.tensors[0].error;
  EXPECT_EQ(one, compared(a, b, 3).report.tensors[0].error);

  TemporaryFolder folder;
  b.write(folder.path());
  const QuantizedFolder read = take(open_quantized_folder(folder.path()));
  PieceData data;
  const LogicalTensor& tensor = *read.find("m");
  ASSERT_TRUE(testing::succeeds(read_piece(read, {&tensor, 0, tensor.elements()}, data)));
  ErrorSums wanted;
  wanted.add(values, data.values);
  wanted.clipped = one.clipped;
  EXPECT_EQ(one, wanted);
  EXPECT_GT(one.relative_mse(), 0.005);
  EXPECT_LT(one.relative_mse(), 0.0075);
}

// Experts 3, hidden 64, inner 32, as gate_up [E, 2 I, H] and down [E, H, I], or transposed; gate
// and up interleaved or one after the other.
struct FusedLayout {
  bool transposed, interleaved;
};

constexpr std::int64_t experts = 3, hidden = 64, inner = 32;
const std::string experts_module = "model.layers.0.mlp.experts";

std::vector<float> gate_of(int expert) { return testing::gaussian(inner * hidden, 100 + expert); }
std::vector<float> up_of(int expert) { return testing::gaussian(inner * hidden, 200 + expert); }
std::vector<float> down_of(int expert) { return testing::gaussian(hidden * inner, 300 + expert); }

SmallModel fused_model(FusedLayout layout) {
  std::vector<float> gate_up(experts * 2 * inner * hidden), down(experts * hidden * inner);
  std::vector<float> bias(experts * 2 * inner);
  for (int e = 0; e < experts; ++e) {
    const std::vector<float> halves[2] = {gate_of(e), up_of(e)};
    for (int half = 0; half < 2; ++half) {
      for (std::int64_t r = 0; r < inner; ++r) {
        const std::int64_t out = layout.interleaved ? 2 * r + half : half * inner + r;
        bias[static_cast<std::size_t>(e * 2 * inner + out)] =
            static_cast<float>(100 * e + 50 * half + r);
        for (std::int64_t c = 0; c < hidden; ++c) {
          const std::int64_t at = layout.transposed ? c * 2 * inner + out : out * hidden + c;
          gate_up[static_cast<std::size_t>(e * 2 * inner * hidden + at)] =
              halves[half][static_cast<std::size_t>(r * hidden + c)];
        }
      }
    }
    const std::vector<float> values = down_of(e);
    for (std::int64_t r = 0; r < hidden; ++r) {
      for (std::int64_t c = 0; c < inner; ++c) {
        const std::int64_t at = layout.transposed ? c * hidden + r : r * inner + c;
        down[static_cast<std::size_t>(e * hidden * inner + at)] =
            values[static_cast<std::size_t>(r * inner + c)];
      }
    }
  }
  SmallModel model;
  const auto shape = [&](std::int64_t rows, std::int64_t cols) {
    return layout.transposed ? std::vector{experts, cols, rows} : std::vector{experts, rows, cols};
  };
  model.add_floats(experts_module + ".gate_up_proj", shape(2 * inner, hidden), gate_up);
  model.add_floats(experts_module + ".down_proj", shape(hidden, inner), down);
  model.add_floats(experts_module + ".gate_up_proj_bias", {experts, 2 * inner}, bias);
  model.config = layout.interleaved ? R"({"model_type": "gpt_oss", "hidden_size": 64})"
                                    : R"({"model_type": "llama4_text", "hidden_size": 64})";
  return model;
}

SmallModel split_model() {
  SmallModel model;
  for (int e = 0; e < experts; ++e) {
    const std::string expert = experts_module + "." + std::to_string(e) + ".";
    model.add_quantized(expert + "gate_proj", Format::mxfp8_e4m3, inner, hidden, gate_of(e));
    model.add_quantized(expert + "up_proj", Format::mxfp8_e4m3, inner, hidden, up_of(e));
    model.add_quantized(expert + "down_proj", Format::mxfp8_e4m3, hidden, inner, down_of(e));
    for (int half = 0; half < 2; ++half) {
      std::vector<float> bias;
      for (std::int64_t r = 0; r < inner; ++r)
        bias.push_back(static_cast<float>(100 * e + 50 * half + r));
      model.add_floats(expert + (half ? "up_proj.bias" : "gate_proj.bias"), {inner}, bias);
    }
  }
  return model;
}

TEST(CompareModels, measures_fused_experts_one_by_one) {
  for (const FusedLayout layout :
       {FusedLayout{false, false}, {true, false}, {true, true}, {false, true}}) {
    const ModelComparison comparison = compared(fused_model(layout), split_model());
    ASSERT_EQ(comparison.report.tensors.size(), 15u);  // 9 weights, 6 biases
    EXPECT_EQ(comparison.identical, 6);
    EXPECT_TRUE(comparison.only_in_original.empty());
    EXPECT_TRUE(comparison.only_in_other.empty());
    for (const TensorReport& tensor : comparison.report.tensors) {
      if (!tensor.measured()) continue;
      EXPECT_LT(tensor.error.relative_mse(), 2e-3) << tensor.name;
      EXPECT_GT(tensor.error.relative_mse(), 1e-5) << tensor.name;
    }
    EXPECT_EQ(comparison.report.bytes_before, 3u * (3 * 64 * 32 + 64) * 4);
  }
}

TEST(CompareModels, finds_the_order_of_gate_and_up_where_the_model_does_not_say) {
  for (const bool interleaved : {true, false}) {
    SmallModel original = fused_model({false, interleaved});
    original.config.clear();
    const ModelComparison comparison = compared(original, split_model());
    for (const TensorReport& tensor : comparison.report.tensors) {
      if (!tensor.measured()) continue;
      EXPECT_LT(tensor.error.relative_mse(), 2e-3) << tensor.name;
    }
    EXPECT_EQ(comparison.identical, 6);
  }
}

TEST(CompareModels, measures_experts_that_only_the_original_has_split) {
  SmallModel original;
  for (int e = 0; e < experts; ++e) {
    const std::string expert = experts_module + "." + std::to_string(e) + ".";
    original.add_floats(expert + "gate_proj.weight", {inner, hidden}, gate_of(e));
    original.add_floats(expert + "up_proj.weight", {inner, hidden}, up_of(e));
    original.add_floats(expert + "down_proj.weight", {hidden, inner}, down_of(e));
  }
  SmallModel other = fused_model({false, false});
  other.remove(experts_module + ".gate_up_proj_bias");
  const ModelComparison comparison = compared(original, other);
  EXPECT_EQ(comparison.identical, 9);
  EXPECT_TRUE(comparison.only_in_other.empty());
}

TEST(CompareModels, misses_only_the_expert_that_is_not_there) {
  SmallModel split = split_model();
  for (const char* part : {".weight", ".weight_scale"}) {
    split.remove(experts_module + ".1.up_proj" + part);
  }
  EXPECT_EQ(compared(fused_model({true, true}), split).only_in_original,
            Strings{experts_module + ".1.up_proj.weight"});
}

TEST(CompareModels, reads_slices_of_several_pieces) {
  const std::int64_t rows = 1024, cols = tile_elements / 512 + 32, count = 2;
  const std::vector<float> gate_up = testing::gaussian(count * 2 * rows * cols, 1),
                           down = testing::gaussian(count * cols * rows, 2);
  SmallModel fused, split;
  fused.add_floats("experts.gate_up_proj", {count, 2 * rows, cols}, gate_up);
  fused.add_floats("experts.down_proj", {count, cols, rows}, down);
  fused.config = R"({"model_type": "llama4_text"})";
  const auto part = [](const std::vector<float>& all, std::int64_t from, std::int64_t length) {
    return std::vector<float>(all.begin() + from, all.begin() + from + length);
  };
  for (std::int64_t e = 0; e < count; ++e) {
    const std::string expert = "experts." + std::to_string(e) + ".";
    split.add_floats(expert + "gate_proj.weight", {rows, cols},
                     part(gate_up, 2 * e * rows * cols, rows * cols));
    split.add_floats(expert + "up_proj.weight", {rows, cols},
                     part(gate_up, (2 * e + 1) * rows * cols, rows * cols));
    split.add_floats(expert + "down_proj.weight", {cols, rows},
                     part(down, e * rows * cols, rows * cols));
  }
  EXPECT_EQ(compared(fused, split).identical, 6);
}

TEST(CompareModels, names_what_quantize_keeps_whatever_the_error) {
  SmallModel original, other;
  for (const char* name :
       {"model.layers.0.mlp.gate", "model.embed_tokens", "model.layers.0.mlp.up"}) {
    const std::vector<float> values(64 * 64, 1.0f);
    original.add_floats(std::string(name) + ".weight", {64, 64}, values);
    other.add_quantized(name, Format::nvfp4, 64, 64, values);
  }
  const ModelComparison comparison = compared(original, other);
  ASSERT_EQ(comparison.should_be_kept.size(), 2u);
  EXPECT_EQ(comparison.should_be_kept[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(comparison.should_be_kept[0].reason, "embedding");
  EXPECT_EQ(comparison.should_be_kept[1].reason, "router");
}

TEST(ConstantRatio, is_told_from_an_error_of_any_other_kind) {
  const std::vector<float> values = testing::gaussian(4096, 5);
  const auto ratio = [&](float factor, float noise) {
    const std::vector<float> random = testing::gaussian(4096, 6);
    std::vector<float> other;
    for (std::size_t i = 0; i < values.size(); ++i) {
      other.push_back(values[i] * factor + random[i] * noise);
    }
    ErrorSums sums;
    sums.add(values, other);
    return constant_ratio(sums);
  };
  EXPECT_NEAR(ratio(8241, 10).value_or(0), 8241, 1);
  EXPECT_NEAR(ratio(0.5f, 0.01f).value_or(0), 0.5, 0.001);
  EXPECT_NEAR(ratio(-1, 0.01f).value_or(0), -1, 0.001);
  EXPECT_FALSE(ratio(1, 0.1f));
  EXPECT_FALSE(ratio(0, 0));
  EXPECT_FALSE(ratio(3, 10));  // most of it is something else
}

TEST(CompareModels, sees_weights_beside_the_model) {
  testing::TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    SmallModel model = testing::small_llama(Format::mxfp4);
    model.add_floats("mtp.fc.weight", {4}, {1, 2, 3, name[0] == 'a' ? 4.0f : 5.0f},
                     "mtp.safetensors");
    model.write(folder / name);
    std::filesystem::remove(folder / name / shard_index_name);
  }
  const auto compared = [&] {
    return compare_models(take(open_quantized_folder(folder / "a")),
                          take(open_quantized_folder(folder / "b")));
  };
  const ModelComparison other = compared();
  const auto found = std::find_if(other.report.tensors.begin(), other.report.tensors.end(),
                                  [](const auto& t) { return t.name == "mtp.fc.weight"; });
  ASSERT_NE(found, other.report.tensors.end());
  EXPECT_EQ(found->error.squared_error, 1.0);
  std::filesystem::remove(folder / "b/mtp.safetensors");
  EXPECT_EQ(compared().only_in_original, std::vector<std::string>{"mtp.fc.weight"});
}

}  // namespace
}  // namespace microscale
