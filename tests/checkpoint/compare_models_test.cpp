#include "checkpoint/compare_models.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/small_model.hpp"
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

}  // namespace
}  // namespace microscale
