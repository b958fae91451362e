#include "checkpoint/containers/gguf_container.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/containers/gguf_pack.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

QuantizeModelOptions options_for(const char* output) {
  QuantizeModelOptions options;
  options.output = output;
  options.container = Container::gguf;
  return options;
}

TEST(GgufContainer, refuses_what_a_gguf_file_does_not_hold) {
  const GgufContainer container;
  QuantizeModelOptions options = options_for("a.gguf");
  EXPECT_TRUE(succeeds(container.check(options)));
  options.format = Format::mxfp8_e4m3;
  EXPECT_TRUE(fails_with(container.check(options), "no mxfp8; choose nvfp4 or mxfp4"));
  options = options_for("a.gguf");
  options.use = {{"blk.0.*", WeightFormat::mxfp4}, {"blk.1.*", WeightFormat::fp8}};
  EXPECT_TRUE(fails_with(container.check(options), "no fp8"));
  options = options_for("folder");
  EXPECT_TRUE(fails_with(container.check(options), "ends in .gguf"));
  options = options_for("a.gguf");
  options.input_scales = "amax.json";
  EXPECT_TRUE(fails_with(container.check(options), "--input-scales"));
}

TEST(GgufContainer, holds_whole_blocks_of_two_formats) {
  const GgufContainer container;
  EXPECT_TRUE(container.holds(WeightFormat::nvfp4) && container.holds(WeightFormat::mxfp4));
  EXPECT_FALSE(container.holds(WeightFormat::fp8) || container.holds(WeightFormat::mxfp8));
  EXPECT_EQ(container.obstacle(WeightFormat::nvfp4, 3, 128), "");
  EXPECT_EQ(container.obstacle(WeightFormat::nvfp4, 3, 96), "K = 96 is no multiple of 64");
  EXPECT_EQ(container.obstacle(WeightFormat::mxfp4, 3, 96), "");
}

TEST(GgufContainer, names_a_layer) {
  const GgufContainer container;
  const LayerTensors nvfp4 = container.layer(Format::nvfp4, "blk.0.attn_q", 10, 128);
  EXPECT_EQ(nvfp4.codes.name, "blk.0.attn_q.weight");
  EXPECT_EQ(nvfp4.codes.shape, (std::vector<std::int64_t>{10, 72}));
  EXPECT_EQ(nvfp4.global_scale.name, "blk.0.attn_q.scale");
  EXPECT_TRUE(nvfp4.scales.name.empty());
  const LayerTensors mxfp4 = container.layer(Format::mxfp4, "blk.0.attn_q", 10, 128);
  EXPECT_EQ(mxfp4.codes.shape, (std::vector<std::int64_t>{10, 68}));
  EXPECT_TRUE(mxfp4.global_scale.name.empty());
}

TEST(GgufContainer, a_tile_is_one_run_of_blocks) {
  std::vector<std::uint8_t> codes(2 * 64, 0x21), scales(2 * 8, 0x38), scratch, written;
  std::uint64_t at = 0;
  int writes = 0;
  GgufContainer().write_tile(
      {Format::nvfp4, 10, 128, {.row = 3, .rows = 2, .col = 0, .cols = 128}, codes, scales},
      {.codes = 1000}, scratch, {[&](std::uint64_t place, std::span<const std::uint8_t> bytes) {
        at = place;
        written.assign(bytes.begin(), bytes.end());
        ++writes;
      }});
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(at, 1000u + 3 * 72);
  std::vector<std::uint8_t> wanted(144);
  pack_gguf_blocks(GgufType::nvfp4, codes, scales, wanted);
  EXPECT_EQ(written, wanted);
}

TEST(GgufContainer, rows_of_heads_go_into_rotary_order) {
  std::vector<std::uint8_t> codes(4 * 32), scales(4 * 8, 0x38), scratch, file(4 * 36);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i / 32);
  GgufContainer().write_tile({Format::nvfp4,
                              8,
                              64,
                              {.row = 4, .rows = 4, .col = 0, .cols = 64},
                              codes,
                              std::span(scales).first(16)},
                             {.codes = 0, .head_rows = 4}, scratch,
                             {[&](std::uint64_t place, std::span<const std::uint8_t> bytes) {
                               std::copy(bytes.begin(), bytes.end(),
                                         file.begin() + static_cast<long>(place) - 4 * 36);
                             }});
  for (const auto& [place, row] : {std::pair{0, 0}, {1, 2}, {2, 1}, {3, 3}})
    EXPECT_EQ(file[static_cast<std::size_t>(place * 36 + 4)] & 15, row) << place;
}

}  // namespace
}  // namespace microscale
