#include "checkpoint/weighted_error.hpp"

#include <algorithm>
#include <array>

#include "formats/half.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

constexpr std::int64_t run = error_run_elements;
using Run = std::array<float, static_cast<std::size_t>(run)>;

WeightedSums piece_sums(const float* original, const float* restored, const float* weights,
                        std::int64_t count) {
  double error[8] = {}, squares[8] = {};
  const auto add = [&](std::int64_t i, int lane) {
    const double weight = weights ? static_cast<double>(weights[i]) : 1.0;
    const double value = static_cast<double>(original[i]);
    const double off = value - static_cast<double>(restored[i]);
    error[lane] += weight * (off * off);
    squares[lane] += weight * (value * value);
  };
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int lane = 0; lane < 8; ++lane) add(i + lane, lane);
  for (int lane = 0; i < count; ++i, ++lane) add(i, lane);
  const auto total = [](const double* p) {
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
  };
  return {total(error), total(squares)};
}

// restore(first, count, out): elements [first, first + count) of the tile, of one row or of whole
// rows.
template <class Restore>
WeightedSums sums_of(const void* elements, DType dtype, std::int64_t rows, std::int64_t cols,
                     std::span<const float> weights, const Restore& restore) {
  Run original, restored;
  WeightedSums sums;
  const std::int64_t length = std::min(cols, run),
                     rows_at_once = std::max(run / cols, std::int64_t{1});
  for (std::int64_t row = 0; row < rows; row += rows_at_once) {
    const std::int64_t lines = std::min(rows_at_once, rows - row);
    for (std::int64_t col = 0; col < cols; col += length) {
      const std::int64_t piece = std::min(length, cols - col), first = row * cols + col;
      load_elements(elements, dtype, first, lines * piece, original.data());
      restore(first, lines * piece, restored.data());
      for (std::int64_t line = 0; line < lines; ++line) {
        sums.merge(piece_sums(original.data() + line * piece, restored.data() + line * piece,
                              weights.empty() ? nullptr : weights.data() + col, piece));
      }
    }
  }
  return sums;
}

}  // namespace

WeightedSums weighted_error(const QuantizedTile& tile, std::span<const float> weights) {
  const FormatInfo& facts = info(tile.format);
  return sums_of(tile.elements, tile.dtype, tile.tile.rows, tile.tile.cols, weights,
                 [&](std::int64_t first, std::int64_t count, float* out) {
                   BlockTensorView view;
                   view.shape = {1, count, tile.format};
                   view.codes =
                       tile.codes.subspan(static_cast<std::size_t>(code_bytes(facts, first)),
                                          static_cast<std::size_t>(code_bytes(facts, count)));
                   view.scales = tile.scales.subspan(static_cast<std::size_t>(first / facts.block),
                                                     static_cast<std::size_t>(count / facts.block));
                   view.global_scale = tile.global_scale;
                   dequantize(view, {out, DType::f32, 1, count, count}, {.threads = 1});
                 });
}

WeightedSums weighted_error(const DenseRows& input, std::span<const std::uint8_t> codes,
                            std::span<const std::uint16_t> scales, std::span<const float> weights) {
  return sums_of(input.elements, input.dtype, input.rows, input.cols, weights,
                 [&](std::int64_t first, std::int64_t count, float* out) {
                   for (std::int64_t at = first; at < first + count;) {
                     const std::int64_t row = at / input.cols;
                     const std::int64_t end = std::min((row + 1) * input.cols, first + count);
                     const auto length = static_cast<std::size_t>(end - at);
                     restore_fp8(codes.subspan(static_cast<std::size_t>(at), length),
                                 bf16_to_float(scales[static_cast<std::size_t>(row)]),
                                 out + (at - first));
                     at = end;
                   }
                 });
}

}  // namespace microscale
