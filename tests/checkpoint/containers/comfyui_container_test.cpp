#include "checkpoint/containers/comfyui_container.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

QuantizeModelOptions options_for(const char* output, Format format = Format::nvfp4) {
  QuantizeModelOptions options;
  options.output = output;
  options.container = Container::comfyui;
  options.format = format;
  return options;
}

TEST(ComfyUiContainer, refuses_what_comfyui_does_not_load) {
  const ComfyUiContainer container;
  EXPECT_TRUE(succeeds(container.check(options_for("a.safetensors"))));
  EXPECT_TRUE(succeeds(container.check(options_for("a.safetensors", Format::mxfp8_e4m3))));
  EXPECT_TRUE(fails_with(container.check(options_for("a.safetensors", Format::mxfp4)), "no mxfp4"));
  EXPECT_TRUE(fails_with(container.check(options_for("folder")), "end in .safetensors"));
  QuantizeModelOptions options = options_for("a.safetensors");
  options.use = {{"*.ff.*", WeightFormat::fp8}};
  EXPECT_TRUE(fails_with(container.check(options), "no fp8"));
  options = options_for("a.safetensors", Format::mxfp8_e4m3);
  options.activations = Activations::dynamic;
  EXPECT_TRUE(fails_with(container.check(options), "--activations"));
}

TEST(ComfyUiContainer, rows_that_loaders_would_pad_are_an_obstacle) {
  const ComfyUiContainer container;
  EXPECT_EQ(container.obstacle(WeightFormat::nvfp4, 48, 64), "");
  EXPECT_EQ(container.obstacle(WeightFormat::nvfp4, 40, 64), "N = 40 is no multiple of 16");
  EXPECT_EQ(container.obstacle(WeightFormat::mxfp8, 48, 64), "N = 48 is no multiple of 32");
  EXPECT_EQ(container.obstacle(WeightFormat::nvfp4, 16, 1 << 21), "K = 2097152 is above 1048576");
}

TEST(ComfyUiContainer, names_types_and_shapes) {
  const ComfyUiContainer container;
  const LayerTensors nvfp4 =
      container.layer({WeightFormat::nvfp4, Inputs::scaled}, "blocks.0.q", 160, 96);
  EXPECT_EQ(nvfp4.codes.name, "blocks.0.q.weight");
  EXPECT_EQ(nvfp4.codes.type, StoredType::u8);
  EXPECT_EQ(nvfp4.codes.shape, (std::vector<std::int64_t>{160, 48}));
  EXPECT_EQ(nvfp4.scales.name, "blocks.0.q.weight_scale");
  EXPECT_EQ(nvfp4.scales.type, StoredType::f8_e4m3);
  EXPECT_EQ(nvfp4.scales.shape, (std::vector<std::int64_t>{256, 8}));
  EXPECT_EQ(nvfp4.global_scale.name, "blocks.0.q.weight_scale_2");
  EXPECT_EQ(nvfp4.input_scale.name, "blocks.0.q.input_scale");
  ASSERT_EQ(nvfp4.constants.size(), 1u);
  EXPECT_EQ(nvfp4.constants[0].tensor.name, "blocks.0.q.comfy_quant");
  EXPECT_EQ(nvfp4.constants[0].bytes, R"({"format": "nvfp4"})");
  EXPECT_EQ(nvfp4.constants[0].tensor.shape, std::vector<std::int64_t>{19});
  const LayerTensors mxfp8 = container.layer(WeightFormat::mxfp8, "blocks.0.q", 160, 96);
  EXPECT_EQ(mxfp8.codes.type, StoredType::f8_e4m3);
  EXPECT_EQ(mxfp8.codes.shape, (std::vector<std::int64_t>{160, 96}));
  EXPECT_EQ(mxfp8.scales.type, StoredType::u8);
  EXPECT_EQ(mxfp8.scales.shape, (std::vector<std::int64_t>{256, 4}));
  EXPECT_TRUE(mxfp8.global_scale.name.empty());
  EXPECT_EQ(mxfp8.constants[0].bytes, R"({"format": "mxfp8"})");
}

// A file in memory, by tiles of `step` rows in a shuffled order.
std::vector<std::uint8_t> written(const std::vector<std::uint8_t>& codes,
                                  const std::vector<std::uint8_t>& scales, std::int64_t rows,
                                  std::int64_t cols, std::int64_t step, std::uint64_t scales_at,
                                  std::uint64_t size) {
  std::vector<std::uint8_t> file(size), scratch;
  const TileOutput output{[&](std::uint64_t at, std::span<const std::uint8_t> bytes) {
                            std::copy(bytes.begin(), bytes.end(),
                                      file.begin() + static_cast<std::ptrdiff_t>(at));
                          },
                          [&](std::uint64_t at, std::uint64_t length, const auto& change) {
                            change(std::span(file).subspan(at, length));
                          }};
  std::vector<std::int64_t> starts;
  for (std::int64_t row = 0; row < rows; row += step) starts.push_back(row);
  std::shuffle(starts.begin(), starts.end(), std::mt19937(1));
  for (const std::int64_t row : starts) {
    const std::int64_t count = std::min(step, rows - row);
    const auto part = [&](const std::vector<std::uint8_t>& all, std::int64_t per_row) {
      return std::vector<std::uint8_t>(all.begin() + row * per_row,
                                       all.begin() + (row + count) * per_row);
    };
    std::vector<std::uint8_t> my_codes = part(codes, cols / 2), my_scales = part(scales, cols / 16);
    ComfyUiContainer().write_tile(
        {Format::nvfp4, rows, cols, {row, count, 0, cols}, my_codes, my_scales},
        {.codes = 8, .scales = scales_at}, scratch, output);
  }
  return file;
}

TEST(ComfyUiContainer, tiles_of_any_height_make_the_same_file) {
  constexpr std::int64_t rows = 304, cols = 160, blocks = cols / 16;
  std::mt19937 random(2);
  std::vector<std::uint8_t> codes(rows * cols / 2), scales(rows * blocks);
  for (auto& byte : codes) byte = static_cast<std::uint8_t>(random());
  for (auto& byte : scales) byte = static_cast<std::uint8_t>(random());
  // cuBLAS's order, from its definition: tiles of 128 x 4, in them 32 lines of 4 quarters of 4.
  constexpr std::uint64_t scales_at = 8 + rows * cols / 2, padded = 384 * 12;
  std::vector<std::uint8_t> wanted(scales_at + padded);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    wanted[8 + i] = static_cast<std::uint8_t>((codes[i] & 15) << 4 | codes[i] >> 4);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t tile = row / 128 * 3 + b / 4;
      const std::int64_t at = tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + b % 4;
      wanted[scales_at + static_cast<std::uint64_t>(at)] =
          scales[static_cast<std::size_t>(row * blocks + b)];
    }
  }
  for (const std::int64_t step : {1, 100, 128, 130, 256, 304}) {
    EXPECT_EQ(written(codes, scales, rows, cols, step, scales_at, wanted.size()), wanted) << step;
  }
}

}  // namespace
}  // namespace microscale
