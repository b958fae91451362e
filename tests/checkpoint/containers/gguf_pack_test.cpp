#include "checkpoint/containers/gguf_pack.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "checkpoint/containers/gguf_blocks.hpp"

namespace microscale {
namespace {

constexpr float e2m1[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};

TEST(GgufPack, types_of_formats) {
  EXPECT_EQ(gguf_type_of(WeightFormat::nvfp4), GgufType::nvfp4);
  EXPECT_EQ(gguf_type_of(WeightFormat::mxfp4), GgufType::mxfp4);
  EXPECT_EQ(gguf_type_of(WeightFormat::mxfp8), std::nullopt);
  EXPECT_EQ(gguf_type_of(WeightFormat::fp8), std::nullopt);
  EXPECT_EQ(gguf_block_bytes(GgufType::nvfp4, 128), 72u);
  EXPECT_EQ(gguf_block_bytes(GgufType::mxfp4, 128), 68u);
}

TEST(GgufPack, a_block_of_mxfp4_by_hand) {
  std::vector<std::uint8_t> codes(16), out(17);
  for (int i = 0; i < 16; ++i)
    codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i * 16 + i / 2);
  pack_gguf_blocks(GgufType::mxfp4, codes, std::vector<std::uint8_t>{0x7B}, out);
  EXPECT_EQ(out[0], 0x7B);
  // Elements 0 and 16 are the low nibbles of codes[0] and codes[8]; 1 and 17 their high ones.
  EXPECT_EQ(out[1], 0x40);
  EXPECT_EQ(out[2], 0x80);
  EXPECT_EQ(out[3], 0x40);
  EXPECT_EQ(out[4], 0x91);
  EXPECT_EQ(out[16], 0xF7);
}

TEST(GgufPack, decoders_find_every_code_and_scale_again) {
  std::mt19937 random(1);
  for (const GgufType type : {GgufType::nvfp4, GgufType::mxfp4}) {
    const std::size_t elements = 640, block = type == GgufType::nvfp4 ? 16 : 32;
    std::vector<std::uint8_t> codes(elements / 2), scales(elements / block);
    for (auto& byte : codes) byte = static_cast<std::uint8_t>(random());
    for (auto& byte : scales) byte = static_cast<std::uint8_t>(8 * (1 + random() % 15));  // exact
    std::vector<std::uint8_t> out(gguf_block_bytes(type, elements));
    pack_gguf_blocks(type, codes, scales, out);
    std::vector<float> values(elements);
    decode_gguf_blocks(type, out, values);
    for (std::size_t i = 0; i < elements; ++i) {
      const int code = codes[i / 2] >> (i % 2 * 4) & 15;
      const int exponent =
          type == GgufType::nvfp4 ? scales[i / block] / 8 - 7 : scales[i / block] - 127;
      EXPECT_EQ(values[i], std::ldexp(e2m1[code], exponent)) << info(type).name << " " << i;
    }
  }
}

}  // namespace
}  // namespace microscale
