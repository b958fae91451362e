#include "reference/matmul.hpp"

#include <algorithm>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "formats/producers.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

// Small: a tile's rows of both sides are decoded to doubles before they are multiplied.
constexpr std::int64_t tile_rows = 16, tile_cols = 64;

void decode_row(const MatmulRows& rows, std::int64_t row, std::int64_t k, double* output) {
  for (std::int64_t i = 0; i < k; ++i) output[i] = matmul_element(rows, row, i);
}

void multiply(const MatmulProduct& product, const MatmulTile& tile) {
  const std::int64_t k = product.k;
  double* a = static_cast<double*>(tile.workspace);
  double* b = a + tile_rows * k;
  for (std::int64_t i = 0; i < tile.rows; ++i) decode_row(product.a, tile.row + i, k, a + i * k);
  for (std::int64_t j = 0; j < tile.cols; ++j) decode_row(tile.b, j, k, b + j * k);
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    for (std::int64_t j = 0; j < tile.cols; ++j) {
      double sum = 0;
      for (std::int64_t e = 0; e < k; ++e) sum += a[i * k + e] * b[j * k + e];
      const double bias = product.bias ? product.bias[tile.col + j] : 0.0;
      tile.output[i * tile.output_stride + j] = static_cast<float>(sum * product.factor + bias);
    }
  }
}

void activate(Activation kind, float* gate, const float* up, std::int64_t count) {
  if (kind == Activation::gelu_tanh) {
    for (std::int64_t i = 0; i < count; ++i) gate[i] = gelu_tanh_mul(gate[i], up[i]);
    return;
  }
  std::int64_t i = 0;
  for (; i + 1 < count; i += 2) {
    const SiluPair pair = silu_mul(clamp_gate(gate[i]), clamp_gate(gate[i + 1]), up[i], up[i + 1]);
    gate[i] = pair.first;
    gate[i + 1] = pair.second;
  }
  if (i < count) gate[i] = silu_mul(clamp_gate(gate[i]), 0.0f, up[i], 0.0f).first;
}

void store(const float* values, std::int64_t count, DType type, void* output) {
  for (std::int64_t i = 0; i < count; ++i) store_dense(values[i], output, type, i);
}

}  // namespace

double matmul_element(const MatmulRows& rows, std::int64_t row, std::int64_t i) {
  const std::uint8_t* data = rows.data + row * rows.stride;
  if (rows.dense()) return load_dense(data, rows.dtype, i);
  const FormatInfo& format = info(rows.format);
  const std::uint8_t code = format.code_bits == 8 ? data[i] : (data[i / 2] >> (i % 2 * 4)) & 15;
  const std::uint8_t scale = rows.scales[row * rows.scale_stride + i / format.block];
  const double value =
      with_codec(format.element, [&](auto codec) { return decltype(codec)::decode(code); });
  return value * (format.e8m0_scale ? decode_e8m0(scale) : UE4M3::decode(scale));
}

const MatmulKernels reference_matmul{
    .supports = [](const MatmulProduct&) { return true; },
    .asks_for_range = [](const MatmulProduct&) { return false; },
    .weights_in_range = [](const MatmulProduct&, const MatmulRows&) { return true; },
    .prepared_row_bytes = [](const MatmulProduct&) { return std::int64_t{0}; },
    .prepared_rows = [](const MatmulProduct&) { return std::int64_t{1}; },
    .prepare = nullptr,
    .tile_shape =
        [](const MatmulProduct&) {
          return MatmulTileShape{tile_rows, tile_cols};
        },
    .workspace_bytes =
        [](const MatmulProduct& product) {
          return (tile_rows + tile_cols) * product.k * static_cast<std::int64_t>(sizeof(double));
        },
    .multiply = multiply,
    .activate = activate,
    .store = store,
    .roundings = [](std::int64_t) { return std::int64_t{0}; },
};

}  // namespace microscale
