// Tiles of packed weights for GPUs: every element has a place of its own, and the bits there are
// what the instructions make of them.
#include "layouts/fragment_tiles.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale::fragment_tiles {
namespace {

template <class Visit>
void for_each_element(Visit&& visit) {
  for (int lane = 0; lane < 32; ++lane)
    for (int step = 0; step < 4; ++step)
      for (int v = 0; v < 4; ++v)
        for (int half = 0; half < 2; ++half) visit(lane, step, v, half);
}

TEST(FragmentTiles, every_element_of_a_tile_has_one_lane) {
  std::set<std::pair<int, int>> seen;
  for_each_element([&](int lane, int step, int v, int half) {
    const Element e = element(lane, step, v, half);
    EXPECT_TRUE(e.row >= 0 && e.row < tile_rows && e.col >= 0 && e.col < tile_cols);
    seen.insert({e.row, e.col});
  });
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(tile_rows * tile_cols));
}

TEST(FragmentTiles, codes_fill_their_bytes_and_scales_follow) {
  std::set<std::pair<int, bool>> nibbles;
  std::set<int> bytes;
  for_each_element([&](int lane, int step, int v, int half) {
    const Nibble n = nibble(lane, step, v, half);
    EXPECT_TRUE(n.byte >= 0 && n.byte < code_bytes(4));
    EXPECT_EQ(n.byte / 16, lane) << "a lane reads 16 bytes";
    nibbles.insert({n.byte, n.low});
    const int b = byte_of(lane, step, v, half);
    EXPECT_TRUE(b >= 0 && b < code_bytes(8));
    EXPECT_EQ(b % 512 / 16, lane);
    bytes.insert(b);
  });
  EXPECT_EQ(nibbles.size(), 1024u);
  EXPECT_EQ(bytes.size(), 1024u);
  for (const int block : {16, 32}) {
    std::set<int> scales;
    for (int row = 0; row < 16; ++row)
      for (int b = 0; b < 64 / block; ++b) scales.insert(scale_of(row, b, block));
    EXPECT_EQ(*scales.begin(), 0);
    EXPECT_EQ(scales.size(), static_cast<std::size_t>(tile_bytes(4, block) - code_bytes(4)));
    EXPECT_EQ(*scales.rbegin() + 1, static_cast<int>(scales.size()));
  }
}

// The masks of cuda/tile/weight_fragments.cuh: an FP8 E5M2 byte, the upper one of FP16.
TEST(FragmentTiles, bits_are_those_of_fp16_after_a_mask) {
  for (int code = 0; code < 16; ++code)
    for (const bool low : {true, false}) {
      const unsigned placed_bits = placed(static_cast<std::uint8_t>(code), low);
      const unsigned byte =
          low ? placed_bits & 0x8E : (placed_bits >> 3 & 0x0E) | (placed_bits << 7 & 0x80);
      const float value = f16_to_float(static_cast<std::uint16_t>(byte << 8));
      EXPECT_EQ(value, E2M1::decode(static_cast<std::uint8_t>(code)) * 0x1p-14f) << code << low;
      EXPECT_EQ(placed_bits & (low ? 0x71u : 0x8Eu), 0u) << "the other half's bits stay free";
    }
}

// The masks of cuda/tile/weight_fragments.cuh.
TEST(FragmentTiles, scales_are_fp16_and_bf16_after_a_mask) {
  EXPECT_EQ(placed_scale(0), 0) << "like the zeros that tiles are filled up with";
  for (int byte = 1; byte < 128; ++byte) {
    const float value = E4M3::decode(static_cast<std::uint8_t>(byte));
    for (int at = 0; at < 4; ++at) {  // rows g and g + 8 of two blocks, the others zero
      const std::uint32_t word =
          scale_word(std::uint32_t{placed_scale(static_cast<std::uint8_t>(byte | 0x80))} << 8 * at);
      const std::uint32_t turned = at < 2 ? word : std::rotr(word, 8);
      const auto f16 = static_cast<std::uint16_t>((turned & 0x7F807F80) >> at % 2 * 16),
                 bf16 = static_cast<std::uint16_t>(((turned >> 3 & 0x0FF00FF0) | 0x70007000) >>
                                                   at % 2 * 16);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(f16_to_float(f16)) && std::isnan(bf16_to_float(bf16)));
      } else {
        EXPECT_EQ(f16_to_float(f16), value * 0x1p7f) << byte << ' ' << at;
        EXPECT_EQ(bf16_to_float(bf16), value * 0x1p119f) << byte << ' ' << at;
      }
      EXPECT_EQ((at < 2 ? std::rotr(word, 8) : word) & 0x7F807F80, 0u) << "the others' stay free";
    }
  }
}

TEST(FragmentTiles, sizes_stay_below_six_tenths_of_a_byte_an_element) {
  EXPECT_EQ(tile_bytes(4, 16), 576);
  EXPECT_EQ(tile_bytes(4, 32), 544);
  EXPECT_EQ(tile_bytes(8, 32), 1056);
  EXPECT_EQ(row_tiles(17, false), 2);
  EXPECT_EQ(row_tiles(17, true), 3);
  EXPECT_EQ(matrix_bytes(4096, 14336, false, 4, 16), 4096 * 14336 / 16 * 9);
  EXPECT_LE(static_cast<double>(matrix_bytes(4096, 14336, false, 4, 16)), 0.6 * 4096 * 14336);
}

}  // namespace
}  // namespace microscale::fragment_tiles
