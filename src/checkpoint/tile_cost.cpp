#include "checkpoint/tile_cost.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"
#include "formats/nvfp4.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

using Run = std::array<float, static_cast<std::size_t>(error_run_elements)>;

// f16_to_float without a branch.
float value_of_f16(std::uint16_t bits) {
  const float finite = std::bit_cast<float>((bits & 0x7FFFu) << 13) * 0x1p112f;
  const std::uint32_t magnitude = (bits & 0x7C00u) == 0x7C00u
                                      ? 0x7F800000u | (bits & 0x3FFu) << 13
                                      : std::bit_cast<std::uint32_t>(finite);
  return std::bit_cast<float>(magnitude | (bits & 0x8000u) << 16);
}

// Inner loops of constant length become vector code.
template <class Convert>
void convert(const std::uint16_t* halves, std::int64_t count, float* out, Convert&& to_float) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int j = 0; j < 16; ++j) out[i + j] = to_float(halves[i + j]);
  }
  for (; i < count; ++i) out[i] = to_float(halves[i]);
}

// Largest magnitude a block can stand for, by its scale byte.
std::array<float, 256> largest_values(Format format, float global_scale) {
  const FormatInfo& facts = info(format);
  const float largest =
      with_codec(facts.element, [](auto codec) { return decltype(codec)::max_value; });
  std::array<float, 256> values{};
  for (int byte = 0; byte < 256; ++byte) {
    const auto scale = static_cast<std::uint8_t>(byte);
    values[scale] =
        largest * (facts.e8m0_scale ? decode_e8m0(scale) : nvfp4_step(scale, global_scale));
  }
  return values;
}

struct BlockFigures {
  float squared_error =
      0;  // to about six digits: enough to dismiss a block that is not among the worst
  int clipped = 0;
};

// Eight partial sums, element i in partial i mod 8, so that a compiler may use vectors.
template <int Size>
BlockFigures block_figures(const float* original, const float* restored, float limit) {
  float sums[8] = {};
  int clipped[8] = {};
  for (int i = 0; i < Size; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      const float error = original[i + lane] - restored[i + lane];
      sums[lane] += error * error;
      clipped[lane] += std::fabs(original[i + lane]) > limit ? 1 : 0;
    }
  }
  BlockFigures figures;
  for (int lane = 0; lane < 8; ++lane) {
    figures.squared_error += sums[lane];
    figures.clipped += clipped[lane];
  }
  return figures;
}

double squared_error(const float* a, const float* b, int size) {
  double sum = 0;
  for (int i = 0; i < size; ++i) {
    const double error = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += error * error;
  }
  return sum;
}

bool is_worse(const WorstBlock& a, const WorstBlock& b) {
  if (a.squared_error != b.squared_error) return a.squared_error > b.squared_error;
  return a.row != b.row ? a.row < b.row : a.block < b.block;
}

// Whether a block of about this error (within a part in ten thousand; overflown or underflown it
// says nothing) has no place among the worst.
bool is_dismissed(float error, const std::vector<WorstBlock>& worst) {
  return worst.size() == worst_blocks_per_tensor && error > 1e-30f &&
         static_cast<double>(error) * 1.0001 < worst.back().squared_error;
}

void insert(std::vector<WorstBlock>& worst, WorstBlock&& block) {
  const auto at = std::upper_bound(worst.begin(), worst.end(), block, is_worse);
  worst.insert(at, std::move(block));
  if (worst.size() > worst_blocks_per_tensor) worst.pop_back();
}

void count_codes(const QuantizedTile& tile, TileCost& cost) {
  for (const std::uint8_t scale : tile.scales) ++cost.scale_codes[scale];
  // Two tables, so that a run of equal bytes is no chain of dependent increments.
  CodeHistogram odd{}, even{};
  const std::size_t size = tile.codes.size(), pairs = size & ~std::size_t{1};
  for (std::size_t i = 0; i < pairs; i += 2) {
    ++even[tile.codes[i]];
    ++odd[tile.codes[i + 1]];
  }
  if (pairs < size) ++even[tile.codes[pairs]];
  const bool packed = info(tile.format).code_bits == 4;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::uint64_t count = even[byte] + odd[byte];
    if (packed) {
      cost.element_codes[byte & 15] += count;
      cost.element_codes[byte >> 4] += count;
    } else {
      cost.element_codes[byte] += count;
    }
  }
}

}  // namespace

void load_elements(const void* elements, DType dtype, std::int64_t first, std::int64_t count,
                   float* out) {
  if (dtype == DType::f32) {
    std::copy_n(static_cast<const float*>(elements) + first, count, out);
    return;
  }
  const auto* halves = static_cast<const std::uint16_t*>(elements) + first;
  if (dtype == DType::f16) {
    convert(halves, count, out, value_of_f16);
  } else {
    convert(halves, count, out, bf16_to_float);
  }
}

TileCost measure_tile(const QuantizedTile& tile) {
  const FormatInfo& facts = info(tile.format);
  const std::int64_t elements = tile.tile.elements();
  const std::array<float, 256> limits = largest_values(tile.format, tile.global_scale);
  TileCost cost;
  Run original, restored;
  // Rows are whole blocks and follow each other without gaps, so a run may end anywhere between
  // blocks.
  for (std::int64_t first = 0; first < elements; first += error_run_elements) {
    const std::int64_t count = std::min(error_run_elements, elements - first);
    const std::int64_t first_block = first / facts.block, blocks = count / facts.block;
    load_elements(tile.elements, tile.dtype, first, count, original.data());
    const auto scales = tile.scales.subspan(static_cast<std::size_t>(first_block),
                                            static_cast<std::size_t>(blocks));
    BlockTensorView view;
    view.shape = {1, count, tile.format};
    view.codes = tile.codes.subspan(static_cast<std::size_t>(code_bytes(facts, first)),
                                    static_cast<std::size_t>(code_bytes(facts, count)));
    view.scales = scales;
    view.global_scale = tile.global_scale;
    dequantize(view, {restored.data(), DType::f32, 1, count, count}, {.threads = 1});

    std::uint64_t clipped = 0;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float* values = original.data() + block * facts.block;
      const float* back = restored.data() + block * facts.block;
      const std::uint8_t scale = scales[static_cast<std::size_t>(block)];
      const BlockFigures figures = facts.block == 16
                                       ? block_figures<16>(values, back, limits[scale])
                                       : block_figures<32>(values, back, limits[scale]);
      clipped += static_cast<std::uint64_t>(figures.clipped);
      if (is_dismissed(figures.squared_error, cost.worst_blocks)) continue;
      const std::int64_t flat = first + block * facts.block;
      WorstBlock worst;
      worst.row =
          tile.slice->line + (tile.tile.row + flat / tile.tile.cols) * tile.slice->line_step;
      worst.block = (tile.tile.col + flat % tile.tile.cols) / facts.block;
      worst.scale_code = scale;
      worst.squared_error = squared_error(values, back, facts.block);
      worst.original.assign(values, values + facts.block);
      worst.restored.assign(back, back + facts.block);
      insert(cost.worst_blocks, std::move(worst));
    }
    const auto length = static_cast<std::size_t>(count);
    cost.error.add({original.data(), length}, {restored.data(), length}, clipped);
  }
  count_codes(tile, cost);
  return cost;
}

void TensorCost::add(std::int64_t tile, TileCost&& cost) {
  std::lock_guard lock(mutex_);
  errors_[static_cast<std::size_t>(tile)] = cost.error;
  outputs_[static_cast<std::size_t>(tile)] = cost.output;
  unweighted_[static_cast<std::size_t>(tile)] = cost.output_unweighted;
  for (std::size_t code = 0; code < total_.scale_codes.size(); ++code) {
    total_.scale_codes[code] += cost.scale_codes[code];
    total_.element_codes[code] += cost.element_codes[code];
  }
  for (WorstBlock& block : cost.worst_blocks) insert(total_.worst_blocks, std::move(block));
}

void TensorCost::finish(TensorReport& report) const {
  for (const ErrorSums& error : errors_) report.error.merge(error);
  for (const WeightedSums& output : outputs_) report.output.merge(output);
  for (const WeightedSums& output : unweighted_) report.output_unweighted.merge(output);
  report.scale_codes = total_.scale_codes;
  report.element_codes = total_.element_codes;
  report.worst_blocks = total_.worst_blocks;
  for (const std::uint64_t count : total_.scale_codes)
    report.blocks += static_cast<std::int64_t>(count);
}

}  // namespace microscale
