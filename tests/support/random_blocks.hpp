// Test data: block tensors with every code and a spread of scales.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "microscale/quantize.hpp"

namespace microscale::test {

/// Scale bytes of [low, high]; NaN codes of MXFP8 are left out.
inline BlockTensor random_blocks(Format format, std::int64_t rows, std::int64_t cols,
                                 Layout layout = Layout::row_major, unsigned seed = 1, int low = -1,
                                 int high = -1) {
  const FormatInfo& facts = info(format);
  const BlockShape row_shape{rows, cols, format};
  BlockTensor tensor(row_shape);
  std::mt19937 random(seed);
  if (low < 0) low = facts.e8m0_scale ? 117 : 0x10;
  if (high < 0) high = facts.e8m0_scale ? 131 : 0x70;
  for (std::uint8_t& code : tensor.codes()) {
    code = static_cast<std::uint8_t>(random());
    if (facts.element == Element::e4m3 && (code & 0x7F) == 0x7F) code &= 0xF0;
    if (facts.element == Element::e5m2 && (code & 0x7C) == 0x7C) code &= 0x8F;
    if (facts.element == Element::e2m3 || facts.element == Element::e3m2) code &= 0x3F;
  }
  for (std::uint8_t& scale : tensor.scales())
    scale = static_cast<std::uint8_t>(std::uniform_int_distribution(low, high)(random));
  if (!facts.e8m0_scale) tensor.global_scale = 0.0123f;
  if (layout == Layout::row_major) return tensor;
  BlockShape shape = row_shape;
  shape.layout = layout;
  BlockTensor tiled(shape);
  tiled.global_scale = tensor.global_scale;
  std::copy(tensor.codes().begin(), tensor.codes().end(), tiled.codes().begin());
  repack_scales(tensor.view(), layout, tiled.scales());
  return tiled;
}

}  // namespace microscale::test
