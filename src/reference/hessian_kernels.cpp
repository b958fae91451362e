// The reference's kernels of the quantizers that take a Hessian: docs/formats/accuracy.md in code,
// element after element.
#include "seam/hessian_kernels.hpp"

#include <algorithm>
#include <cmath>

#include "formats/block_quantizer.hpp"

namespace microscale {
namespace {

void eliminate(double* const* c, const double* const* v, std::int64_t count, const double* u,
               std::int64_t depth, int width) {
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t k = depth - 1; k >= 0; --k)
      for (int j = 0; j < width; ++j)
        c[r][j] = std::fma(-v[r][k], u[k * factor_width + j], c[r][j]);
}

void solve(double* const* c, std::int64_t count, const double* u, int width) {
  for (std::int64_t r = 0; r < count; ++r)
    for (int k = width - 1; k > 0; --k) {
      const double computed = c[r][k];
      for (int j = 0; j < width; ++j)
        c[r][j] = std::fma(-computed, u[k * factor_width + j], c[r][j]);
    }
}

void add_products(const float* values, std::int64_t depth, const float* matrix, std::int64_t stride,
                  float* sums) {
  for (int c = 0; c < 16; ++c)
    for (int r = 0; r < hessian_rows; ++r) {
      float& sum = sums[c * hessian_rows + r];
      for (std::int64_t i = 0; i < depth; ++i)
        sum = fused_multiply_add(values[i * hessian_rows + r], matrix[i * stride + c], sum);
    }
}

// A scale that a block may get.
struct Candidate {
  std::uint8_t scale = 0;
  float multiplier = 0;  // of elements, before they are rounded
  float step = 0;        // of codes
  float unit = 1;        // of the errors: what scaled ones squared are multiplied by
};

Candidate nvfp4_candidate(int scale, float global_scale) {
  const auto code = static_cast<std::uint8_t>(scale);
  const float value = UE4M3::decode(code);
  return {code, nvfp4_multiplier(code, global_scale), nvfp4_step(code, global_scale),
          value * value};
}

// `lowest`: the first candidate, in whose steps errors are counted.
Candidate mxfp4_candidate(int scale, int lowest) {
  const auto byte = static_cast<std::uint8_t>(scale);
  return {byte, inverse_e8m0(byte), decode_e8m0(byte), power_of_two(2 * (scale - lowest))};
}

template <int Block>
struct BlockOfRow {
  float weights[Block], targets[Block];
  float errors[Block] = {};
  std::uint8_t codes[Block] = {};
};

// The codes under one scale, and the error they make. `panel`: the rows of the factor's panel that
// belong to the block itself, or null.
template <int Block>
float encode(const HessianRows& rows, std::int64_t b, const Candidate& candidate,
             const float* panel, BlockOfRow<Block>& block) {
  float scaled_errors[Block];
  for (int j = 0; j < Block; ++j) {
    float target = block.targets[j];
    if (panel)
      for (int i = 0; i < j; ++i)
        target = fused_multiply_add(block.errors[i], panel[i * Block + j], target);
    const float scaled = target * candidate.multiplier;
    block.codes[j] = E2M1::encode(scaled, Rounding::nearest_even);
    const float value = E2M1::decode(block.codes[j]);
    scaled_errors[j] = scaled - value;
    block.errors[j] = fused_multiply_add(-value, candidate.step, block.weights[j]);
  }
  const float sum = block_sum<Block>([&](float partial, int i) {
    float weighted = 0.0f;
    if (panel) {
      weighted = rows.pivots[b * Block + i] * scaled_errors[i];
    } else {
      const float* hessian = rows.hessian_blocks + (b * Block + i) * Block;
      for (int j = 0; j < Block; ++j)
        weighted = fused_multiply_add(hessian[j], scaled_errors[j], weighted);
    }
    return fused_multiply_add(weighted, scaled_errors[i], partial);
  });
  return sum * candidate.unit;
}

template <int Block>
Candidate choose(const HessianRows& rows, std::int64_t b, const float* panel,
                 BlockOfRow<Block>& block) {
  const float amax = block_range<Block>(block.targets).amax;
  if (amax == 0) return {};
  int first, last;
  if constexpr (Block == 32) {
    const int floor = e8m0_from_amax<E2M1>(ScaleRule::floor, amax);
    first = std::max(floor - mxfp4_window_below, 0);
    last = std::min(floor + 1, static_cast<int>(e8m0_max));
  } else {
    const int nearest = nvfp4_nearest_scale(amax, nvfp4_scale_factor(rows.global_scale));
    first = rows.rule == ScaleRule::full ? 1 : std::max(nearest - nvfp4_window_below, 1);
    last = rows.rule == ScaleRule::full
               ? nvfp4_max_scale
               : std::min(nearest + nvfp4_window_above, static_cast<int>(nvfp4_max_scale));
  }
  Candidate best;
  float least = 0;
  for (int scale = first; scale <= last; ++scale) {
    const Candidate candidate =
        Block == 32 ? mxfp4_candidate(scale, first) : nvfp4_candidate(scale, rows.global_scale);
    const float error = encode(rows, b, candidate, panel, block);
    if (scale != first && !(error < least)) continue;
    least = error;
    best = candidate;
  }
  return best;
}

template <int Block>
void quantize_row(const HessianRows& rows, int row) {
  BlockOfRow<Block> block;
  for (std::int64_t b = 0; b < rows.blocks; ++b) {
    const std::int64_t begin = b * Block;
    const float* panel = rows.factor ? rows.factor + factor_panel(b, Block) : nullptr;
    for (int j = 0; j < Block; ++j) {
      float target = block.weights[j] = rows.weights[(begin + j) * hessian_rows + row];
      for (std::int64_t i = 0; panel && i < begin; ++i)
        target =
            fused_multiply_add(rows.errors[i * hessian_rows + row], panel[i * Block + j], target);
      block.targets[j] = target;
    }
    const float* own = panel ? panel + begin * Block : nullptr;
    const Candidate scale = choose(rows, b, own, block);
    encode(rows, b, scale, own, block);
    rows.scales[b * hessian_rows + row] = scale.scale;
    for (int j = 0; j < Block; ++j) {
      rows.errors[(begin + j) * hessian_rows + row] = block.errors[j];
      rows.codes[(begin + j) * hessian_rows + row] = block.codes[j];
    }
  }
}

void quantize(const HessianRows& rows) {
  for (int row = 0; row < hessian_rows; ++row)
    rows.format == Format::nvfp4 ? quantize_row<16>(rows, row) : quantize_row<32>(rows, row);
}

}  // namespace

const HessianKernels reference_hessian_kernels{
    .eliminate = eliminate, .solve = solve, .add_products = add_products, .quantize = quantize};

}  // namespace microscale
