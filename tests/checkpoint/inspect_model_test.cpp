#include "checkpoint/inspect_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

using testing::SmallModel;
using testing::TemporaryFolder;

TEST(InspectModel, adds_up_what_is_there) {
  TemporaryFolder folder;
  testing::small_llama(Format::nvfp4).write(folder.path());
  const ModelSummary summary = summarize_model(take(open_quantized_folder(folder.path())));
  ASSERT_EQ(summary.tensors.size(), 9u);
  EXPECT_EQ(summary.files, 1u);
  EXPECT_EQ(summary.elements, 6 * 4096 + 2 * 1024 + 64);
  EXPECT_EQ(summary.quantized_elements, 6 * 4096);
  EXPECT_EQ(summary.quantized_bytes, 6u * (2048 + 256 + 4));
  EXPECT_EQ(summary.bytes, 6u * (2048 + 256 + 4) + 4 * (2 * 1024 + 64));
  const TensorSummary& head = summary.tensors[0];
  EXPECT_EQ(head.name, "lm_head.weight");
  EXPECT_EQ(head.format, "F32");
  EXPECT_FALSE(head.quantized);
  EXPECT_FALSE(head.global_scale.has_value());
  const TensorSummary& down = summary.tensors[2];
  EXPECT_EQ(down.name, "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(down.format, "nvfp4");
  EXPECT_EQ(down.global_scale, nvfp4_global_scale(0.125f));
  EXPECT_EQ(down.file, "model.safetensors");
}

TEST(InspectModel, notes_modules_that_are_not_whole) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.remove("model.layers.0.mlp.down_proj.weight_scale");
  TemporaryFolder folder;
  model.write(folder.path());
  const ModelSummary summary = summarize_model(take(open_quantized_folder(folder.path())));
  ASSERT_EQ(summary.notes.size(), 1u);
  EXPECT_NE(summary.notes[0].find("weight_scale) are missing"), std::string::npos);
}

TEST(InspectTensor, shows_codes_scales_and_the_first_block) {
  SmallModel model;
  testing::Bytes codes(16, 0x10);  // 0 and 0.5
  codes[0] = 0xF7;                 // 6 and -6
  model.add("m.weight_packed", StoredType::u8, {2, 8}, codes);
  model.add("m.weight_scale", StoredType::f8_e4m3, {2, 1}, {0x40, 0x38});
  model.add_floats("m.weight_global_scale", {1}, {4.0f});
  TemporaryFolder folder;
  model.write(folder.path());
  const QuantizedFolder read = take(open_quantized_folder(folder.path()));
  const TensorDetail detail = inspect_tensor(read, *read.find("m"), 1);
  EXPECT_TRUE(detail.has_values);
  EXPECT_EQ(detail.smallest, -3.0f);  // -6 * 2 / 4
  EXPECT_EQ(detail.largest, 3.0f);
  EXPECT_EQ(detail.zeros, 15);
  EXPECT_EQ(detail.non_finite, 0);
  EXPECT_DOUBLE_EQ(detail.mean_square, (2 * 9 + 7 * 0.0625 + 8 * 0.015625) / 32);
  EXPECT_EQ(detail.blocks, 2);
  EXPECT_EQ(detail.scale_codes[0x40], 1u);
  EXPECT_EQ(detail.scale_codes[0x38], 1u);
  EXPECT_EQ(detail.element_codes[7], 1u);
  EXPECT_EQ(detail.element_codes[15], 1u);
  EXPECT_EQ(
      std::accumulate(detail.element_codes.begin(), detail.element_codes.end(), std::uint64_t{0}),
      32u);
  ASSERT_TRUE(detail.first_block.has_value());
  EXPECT_EQ(detail.first_block->scale_code, 0x40);
  EXPECT_EQ(detail.first_block->scale, 0.5f);
  EXPECT_EQ(detail.first_block->codes,
            (std::vector<std::uint8_t>{7, 15, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(detail.first_block->values[1], -3.0f);
  EXPECT_EQ(detail.first_block->values[3], 0.25f);
}

TEST(InspectTensor, counts_what_is_not_finite_in_a_dense_one) {
  SmallModel model;
  model.add_floats("d", {5}, {1.0f, NAN, -INFINITY, 0.0f, -2.0f});
  model.add("i", StoredType::i32, {1}, {1, 0, 0, 0});
  model.add_floats("empty", {0, 4}, {});
  TemporaryFolder folder;
  model.write(folder.path());
  const QuantizedFolder read = take(open_quantized_folder(folder.path()));
  const TensorDetail detail = inspect_tensor(read, *read.find("d"));
  EXPECT_EQ(detail.non_finite, 2);
  EXPECT_EQ(detail.zeros, 1);
  EXPECT_EQ(detail.smallest, -2.0f);
  EXPECT_EQ(detail.largest, 1.0f);
  EXPECT_DOUBLE_EQ(detail.mean_square, 5.0 / 3);
  EXPECT_EQ(detail.first_values.size(), 5u);
  EXPECT_EQ(detail.blocks, 0);
  EXPECT_FALSE(detail.first_block.has_value());
  EXPECT_FALSE(inspect_tensor(read, *read.find("i")).has_values);
  const TensorDetail empty = inspect_tensor(read, *read.find("empty"));
  EXPECT_EQ(empty.smallest, 0.0f);
  EXPECT_EQ(empty.largest, 0.0f);
}

TEST(InspectTensor, gives_the_values_of_codes) {
  EXPECT_EQ(element_value(Format::nvfp4, 15), -6.0f);
  EXPECT_EQ(element_value(Format::mxfp8_e4m3, 0x7E), 448.0f);
  EXPECT_TRUE(std::isnan(element_value(Format::mxfp8_e4m3, 0x7F)));
  EXPECT_EQ(scale_value(Format::nvfp4, 0x01), 0x1p-9f);
  EXPECT_EQ(scale_value(Format::mxfp4, 0), 0x1p-127f);
  EXPECT_TRUE(std::isnan(scale_value(Format::mxfp4, 255)));
}

}  // namespace
}  // namespace microscale
