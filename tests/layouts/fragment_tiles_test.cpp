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

// The rotations and masks of cuda/block/decode.cuh.
TEST(FragmentTiles, bits_are_those_of_bf16_after_a_mask) {
  std::uint32_t all = 0;
  for (int v = 0; v < 4; ++v)
    for (int half = 0; half < 2; ++half)
      for (std::uint32_t code = 0; code < 16; ++code) {
        const Nibble at = nibble(0, 0, v, half);
        const std::uint32_t nibbles = code << (8 * at.byte + (at.low ? 0 : 4));
        const std::uint32_t word = code_word(nibbles);
        EXPECT_EQ(nibbles_of(word), nibbles);
        if (code == 15) {
          EXPECT_EQ(all & word, 0u) << "every bit has a place of its own";
          all |= word;
        }
        const std::uint32_t values[4] = {word, std::rotr(word, 3), std::rotr(word, 6),
                                         (word & 0x001B001B) * 0x1084};
        for (int other = 0; other < 4; ++other) {
          const std::uint32_t bits = values[other] & 0x81C081C0;
          const float value = bf16_to_float(static_cast<std::uint16_t>(bits >> 16 * half));
          EXPECT_EQ(value,
                    other == v ? E2M1::decode(static_cast<std::uint8_t>(code)) * 0x1p-126f : 0.0f)
              << code << ' ' << v << ' ' << other;
          EXPECT_EQ(bits >> 16 * (1 - half) & 0xFFFF, 0u);
        }
      }
  EXPECT_EQ(all, ~0u);
}

// The masks of cuda/block/decode.cuh.
TEST(FragmentTiles, scales_are_fp16_and_bf16_after_a_mask) {
  EXPECT_EQ(placed_scale(0), 0) << "like the zeros that tiles are filled up with";
  for (int byte = 1; byte < 128; ++byte) {
    const float value = E4M3::decode(static_cast<std::uint8_t>(byte));
    for (int at = 0; at < 4; ++at) {  // rows g and g + 8 of two blocks, the others zero
      const std::uint32_t word =
          scale_word(std::uint32_t{placed_scale(static_cast<std::uint8_t>(byte | 0x80))} << 8 * at);
      const std::uint32_t turned = at < 2 ? word : std::rotr(word, 8);
      const auto f16 = static_cast<std::uint16_t>((turned << 3 & 0x7F807F80) >> at % 2 * 16),
                 bf16 = static_cast<std::uint16_t>(((turned & 0x0FF00FF0) | 0x70007000) >>
                                                   at % 2 * 16);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(f16_to_float(f16)) && std::isnan(bf16_to_float(bf16)));
      } else {
        EXPECT_EQ(f16_to_float(f16), value * 0x1p7f) << byte << ' ' << at;
        EXPECT_EQ(bf16_to_float(bf16), value * 0x1p119f) << byte << ' ' << at;
      }
      EXPECT_EQ((at < 2 ? std::rotr(word, 8) : word) & 0x0FF00FF0, 0u) << "the others' stay free";
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
