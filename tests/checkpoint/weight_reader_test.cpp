#include "checkpoint/weight_reader.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

using testing::SmallModel;
using testing::TemporaryFolder;

// What the library's dequantize makes of the whole tensor at once.
std::vector<float> whole(const SmallModel& model, const QuantizedModule& module) {
  SmallModel copy = model;
  const std::string name = module.name;
  const auto& codes = copy.at(module.codes->name()).bytes;
  const auto& scales = copy.at(module.scales->name()).bytes;
  std::vector<float> values(static_cast<std::size_t>(module.rows * module.cols));
  BlockTensorView view;
  view.shape = {module.rows, module.cols, module.format};
  view.codes = codes;
  view.scales = scales;
  view.global_scale = module.multiplier;
  dequantize(view, {values.data(), DType::f32, module.rows, module.cols, module.cols},
             {.backend = Backend::reference, .threads = 1});
  return values;
}

TEST(WeightReader, pieces_of_any_size_are_the_whole_tensor) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    SmallModel model;
    model.add_quantized("m", format, 7, 96, testing::gaussian(7 * 96, 3));
    TemporaryFolder folder;
    model.write(folder.path());
    const QuantizedFolder read = take(open_quantized_folder(folder.path()));
    const LogicalTensor& tensor = *read.find("m");
    const std::vector<float> wanted = whole(model, *tensor.module);
    for (const std::int64_t size : {32, 64, 160, 672, 100000}) {  // across and within rows
      std::vector<float> values;
      PieceData data;
      for (const Piece& piece : pieces_of(tensor, size)) {
        ASSERT_TRUE(testing::succeeds(read_piece(read, piece, data)));
        values.insert(values.end(), data.values.begin(), data.values.end());
      }
      EXPECT_EQ(values, wanted) << info(format).name << " in pieces of " << size;
    }
  }
}

TEST(WeightReader, pieces_as_bf16_are_the_rounded_values) {
  SmallModel model;
  model.add_quantized("m", Format::nvfp4, 4, 64, testing::gaussian(256, 4));
  TemporaryFolder folder;
  model.write(folder.path());
  const QuantizedFolder read = take(open_quantized_folder(folder.path()));
  const std::vector<float> wanted = whole(model, *read.find("m")->module);
  PieceData data;
  std::vector<std::uint8_t> bytes;
  ASSERT_TRUE(
      testing::succeeds(read_piece_as(read, {read.find("m"), 0, 256}, DType::bf16, data, bytes)));
  ASSERT_EQ(bytes.size(), 512u);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto bits = static_cast<std::uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8);
    EXPECT_EQ(bits, float_to_bf16(wanted[i])) << i;
  }
}

TEST(WeightReader, decodes_dense_types) {
  SmallModel model;
  model.add_floats("f32", {3}, {1.5f, -0.0f, INFINITY});
  model.add("f16", StoredType::f16, {2}, {0x00, 0x3C, 0x01, 0x80});
  model.add("bf16", StoredType::bf16, {2}, {0x80, 0x3F, 0x00, 0xC0});
  model.add("f64", StoredType::f64, {1}, testing::bytes_of(std::vector<double>{0.1}));
  model.add("e4m3", StoredType::f8_e4m3, {2}, {0x38, 0xFE});
  model.add("e5m2", StoredType::f8_e5m2, {2}, {0x3C, 0x7B});
  model.add("i64", StoredType::i64, {1}, testing::bytes_of(std::vector<std::int64_t>{7}));
  TemporaryFolder folder;
  model.write(folder.path());
  const QuantizedFolder read = take(open_quantized_folder(folder.path()));
  const auto values = [&](const char* name) {
    PieceData data;
    const LogicalTensor& tensor = *read.find(name);
    EXPECT_TRUE(testing::succeeds(read_piece(read, {&tensor, 0, tensor.elements()}, data)));
    return data.values;
  };
  EXPECT_EQ(values("f32"), (std::vector<float>{1.5f, -0.0f, INFINITY}));
  EXPECT_EQ(values("f16"), (std::vector<float>{1.0f, -0x1p-24f}));
  EXPECT_EQ(values("bf16"), (std::vector<float>{1.0f, -2.0f}));
  EXPECT_EQ(values("f64"), (std::vector<float>{0.1f}));
  EXPECT_EQ(values("e4m3"), (std::vector<float>{1.0f, -448.0f}));
  EXPECT_EQ(values("e5m2"), (std::vector<float>{1.0f, 57344.0f}));
  EXPECT_FALSE(has_values(*read.find("i64")));
}

TEST(WeightReader, a_file_cut_short_meanwhile_is_a_failure) {
  SmallModel model;
  model.add_floats("a", {1000}, std::vector<float>(1000, 1.0f));
  TemporaryFolder folder;
  model.write(folder.path());
  const QuantizedFolder read = take(open_quantized_folder(folder.path()));
  std::filesystem::resize_file(folder / "model.safetensors", 100);
  PieceData data;
  EXPECT_TRUE(
      testing::fails_with(read_piece(read, {read.find("a"), 0, 1000}, data), "model.safetensors"));
}

TEST(WeightReader, counts_codes_of_both_nibbles) {
  PieceData data;
  data.codes = {0x21, 0x22, 0xF1};
  data.scales = {7, 7, 9};
  CodeHistogram scales{}, codes{};
  count_codes(data, Format::mxfp4, scales, codes);
  EXPECT_EQ(scales[7], 2u);
  EXPECT_EQ(scales[9], 1u);
  EXPECT_EQ(codes[1], 2u);
  EXPECT_EQ(codes[2], 3u);
  EXPECT_EQ(codes[15], 1u);
  count_codes(data, Format::mxfp8_e4m3, scales, codes);
  EXPECT_EQ(codes[0xF1], 1u);
}

TEST(WeightReader, results_are_folded_in_order_at_any_number_of_threads) {
  for (const int threads : {1, 3}) {
    std::vector<std::int64_t> seen;
    compute_in_order<std::int64_t>(
        100, threads, [](std::int64_t i, int) { return i * i; },
        [&](std::int64_t i, std::int64_t& square) {
          EXPECT_EQ(square, i * i);
          seen.push_back(i);
        });
    std::vector<std::int64_t> wanted(100);
    std::iota(wanted.begin(), wanted.end(), 0);
    EXPECT_EQ(seen, wanted);
  }
}

}  // namespace
}  // namespace microscale
