#include "ops/prepared_hessian.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "core/out_of_memory.hpp"
#include "core/threads.hpp"
#include "formats/block_weights.hpp"
#include "formats/hessian.hpp"
#include "formats/integers.hpp"
#include "microscale/error.hpp"
#include "ops/backends.hpp"
#include "ops/factor_hessian.hpp"

namespace microscale {
namespace {

constexpr double most_damping = 10;
constexpr double least_more_damping = 1e-3;
constexpr std::int64_t check_tile = 64;

using Parts = PreparedHessian::Parts;

std::size_t square(std::int64_t size) { return static_cast<std::size_t>(size * size); }

// Whole blocks, those with the largest sums on the diagonal first; equal ones as they lie.
std::vector<std::int64_t> order_of_blocks(const SoundHessian& h, std::int64_t blocks, int block) {
  std::vector<double> energy(static_cast<std::size_t>(blocks));
  for (std::int64_t k = 0; k < blocks * block; ++k)
    energy[static_cast<std::size_t>(k / block)] += h.energy(k);
  std::vector<std::int64_t> order(energy.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return energy[static_cast<std::size_t>(a)] > energy[static_cast<std::size_t>(b)];
  });
  return order;
}

// False where H is not positive definite.
bool factor(const SoundHessian& h, const HessianKernels& kernels, int threads, Parts& parts) {
  const int block = info(parts.options.format).block;
  const std::int64_t cols = parts.options.cols, blocks = cols / block;
  parts.order = order_of_blocks(h, blocks, block);
  const auto column = [&](std::int64_t k) {
    return parts.order[static_cast<std::size_t>(k / block)] * block + k % block;
  };
  Triangle a(cols);
  parallel_for(cols, threads, [&](std::int64_t i) {
    double* row = a.row(i);
    for (std::int64_t k = i; k < cols; ++k) row[k] = h(column(i), column(k));
  });
  if (!factor_hessian(a, kernels, threads)) return false;
  const int exponent = -std::ilogb(h.mean());
  std::vector<float> pivots(static_cast<std::size_t>(cols));
  for (std::int64_t k = 0; k < cols; ++k)
    pivots[static_cast<std::size_t>(k)] = static_cast<float>(std::ldexp(a.row(k)[k], exponent));
  parts.pivots = relative_weights(pivots, blocks, block);
  parts.factor.resize(static_cast<std::size_t>(factor_panel(blocks, block)));
  parallel_for(blocks, threads, [&](std::int64_t b) {
    float* panel = parts.factor.data() + factor_panel(b, block);
    const std::int64_t begin = b * block;
    for (std::int64_t i = 0; i < begin + block; ++i)
      for (std::int64_t c = std::max<std::int64_t>(0, i + 1 - begin); c < block; ++c)
        panel[i * block + c] =
            static_cast<float>(a.row(i)[begin + c] / a.row(begin + c)[begin + c]);
  });
  return true;
}

// The same for the blocks on the diagonal alone, which stay in their order.
bool take_blocks(const SoundHessian& h, const HessianKernels& kernels, int threads, Parts& parts) {
  const int block = info(parts.options.format).block;
  const std::int64_t blocks = parts.options.cols / block;
  parts.order.resize(static_cast<std::size_t>(blocks));
  std::iota(parts.order.begin(), parts.order.end(), 0);
  parts.hessian_blocks.resize(static_cast<std::size_t>(blocks) * square(block));
  std::atomic<bool> sound = true;
  parallel_for(blocks, threads, [&](std::int64_t b) {
    const std::int64_t begin = b * block;
    Triangle a(block);
    double largest = 0;
    for (std::int64_t i = 0; i < block; ++i) {
      for (std::int64_t k = i; k < block; ++k) a.row(i)[k] = h(begin + i, begin + k);
      largest = std::max(largest, a.row(i)[i]);
    }
    const int exponent = -std::ilogb(largest);
    float* out = parts.hessian_blocks.data() + b * block * block;
    for (std::int64_t i = 0; i < block; ++i)
      for (std::int64_t k = i; k < block; ++k) {
        const auto relative = static_cast<float>(std::ldexp(a.row(i)[k], exponent));
        out[i * block + k] = out[k * block + i] =
            i == k ? std::max(relative, std::ldexp(1.0f, least_weight_exponent)) : relative;
      }
    if (!factor_hessian(a, kernels, 1)) sound = false;
  });
  return sound;
}

void check_options(const HessianOptions& o) {
  const FormatInfo& format = info(o.format);
  const auto refuse = [](const std::string& text) {
    throw Error(ErrorCode::invalid_argument, "PreparedHessian: " + text);
  };
  if (o.format != Format::nvfp4 && o.format != Format::mxfp4)
    refuse(fmt::format("format {}; nvfp4 and mxfp4 are quantized with a Hessian", format.name));
  if (o.method != HessianMethod::gptq && o.method != HessianMethod::block_hessian)
    refuse(fmt::format("method {}; pass gptq or block_hessian", static_cast<int>(o.method)));
  if (o.cols <= 0 || o.cols % format.block != 0)
    refuse(fmt::format("{} columns are no multiple of {}'s block of {}", o.cols, format.name,
                       format.block));
  if (o.hessian.size() != square(o.cols))
    refuse(fmt::format("{} numbers for {} columns; pass {}, the full matrix", o.hessian.size(),
                       o.cols, square(o.cols)));
  if (!(o.shrink >= 0 && o.shrink <= 1))
    refuse(fmt::format("shrink {}; pass a number from 0 to 1", o.shrink));
  if (!(o.damping >= 0) || !std::isfinite(o.damping))
    refuse(fmt::format("damping {}; pass 0 or more, 0.01 for example", o.damping));
}

// The first pair of elements of a tile (i <= j) that is wrong, as i * cols + j, or -1.
std::int64_t first_wrong(std::span<const float> hessian, std::int64_t cols, std::int64_t row,
                         std::int64_t col) {
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return static_cast<double>(hessian[static_cast<std::size_t>(i * cols + j)]);
  };
  for (std::int64_t i = row; i < std::min(row + check_tile, cols); ++i)
    for (std::int64_t j = std::max(i, col); j < std::min(col + check_tile, cols); ++j) {
      const double a = at(i, j), b = at(j, i);
      const bool sound =
          std::isfinite(a) && std::isfinite(b) &&
          (i == j ? a >= 0
                  : a == b || std::fabs(a - b) <= 1e-3 * std::sqrt(std::fabs(at(i, i) * at(j, j))));
      if (!sound) return i * cols + j;
    }
  return -1;
}

}  // namespace

std::string_view to_string(HessianMethod method) {
  return method == HessianMethod::gptq ? "gptq" : "block-hessian";
}

double hessian_shrink(std::int64_t tokens, std::int64_t cols) {
  return tokens >= 64 * cols ? 0.1 : 0.3;
}

const HessianKernels& hessian_kernels(const char* operation, const Context& context) {
  switch (choose_backend(operation, context).backend) {
    case Backend::amx:
    case Backend::avx512:
      return avx512_hessian_kernels;
    case Backend::avx2:
      return avx2_hessian_kernels;
    default:
      return reference_hessian_kernels;
  }
}

void check_hessian(const char* operation, std::span<const float> hessian, std::int64_t cols,
                   int threads) {
  const std::int64_t tiles = ceil_div(cols, check_tile);
  std::atomic<std::int64_t> first = -1;
  parallel_for(tiles, threads, [&](std::int64_t row) {
    for (std::int64_t col = row; col < tiles; ++col) {
      const std::int64_t wrong = first_wrong(hessian, cols, row * check_tile, col * check_tile);
      if (wrong < 0) continue;
      std::int64_t known = first;
      while ((known < 0 || wrong < known) && !first.compare_exchange_weak(known, wrong)) {
      }
    }
  });
  if (first < 0) return;
  const std::int64_t i = first / cols, j = first % cols;
  const float a = hessian[static_cast<std::size_t>(i * cols + j)],
              b = hessian[static_cast<std::size_t>(j * cols + i)];
  throw Error(
      ErrorCode::bad_input,
      i == j
          ? fmt::format("{}: the Hessian has {} on its diagonal, at column {}; a mean of squares "
                        "is finite and not negative",
                        operation, a, i)
      : std::isfinite(a) && std::isfinite(b)
          ? fmt::format("{}: the Hessian is not symmetric: {} at ({}, {}), but {} at ({}, {})",
                        operation, a, i, j, b, j, i)
          : fmt::format("{}: the Hessian has {} at ({}, {}); was the model calibrated on inputs "
                        "that are finite?",
                        operation, std::isfinite(a) ? b : a, i, j));
}

HessianBytes hessian_bytes(std::int64_t cols, Format format, HessianMethod method) {
  const std::int64_t block = info(format).block, blocks = cols / block, f = sizeof(float);
  if (method == HessianMethod::block_hessian) return {0, (cols * block + blocks * 2) * f};
  return {(cols * (cols + 1) / 2 + cols * factor_width) * std::int64_t{sizeof(double)},
          (factor_panel(blocks, static_cast<int>(block)) + cols + blocks * 2) * f};
}

PreparedHessian::PreparedHessian(const HessianOptions& options, const Context& context) try {
  check_options(options);
  const HessianKernels& kernels = hessian_kernels("PreparedHessian", context);
  check_hessian("PreparedHessian", options.hessian, options.cols, context.threads);
  auto parts = std::make_shared<Parts>();
  parts->options = options;
  parts->options.hessian = {};
  for (double damping = options.damping;; damping = std::max(damping * 10, least_more_damping)) {
    const SoundHessian h(options.hessian, options.cols, options.shrink, damping);
    parts->damping = damping;
    parts->dead = h.dead();
    const bool sound = options.method == HessianMethod::gptq
                           ? factor(h, kernels, context.threads, *parts)
                           : take_blocks(h, kernels, context.threads, *parts);
    if (sound) break;
    if (damping >= most_damping)
      throw Error(ErrorCode::bad_input,
                  fmt::format("PreparedHessian: with {} times its mean added to the diagonal the "
                              "Hessian is not positive definite yet; it is no mean of x x^T",
                              damping));
  }
  parts_ = std::move(parts);
} catch (const std::bad_alloc&) {
  throw_out_of_memory("PreparedHessian");
}

std::int64_t PreparedHessian::cols() const { return parts_->options.cols; }
Format PreparedHessian::format() const { return parts_->options.format; }
HessianMethod PreparedHessian::method() const { return parts_->options.method; }
double PreparedHessian::damping() const { return parts_->damping; }
std::int64_t PreparedHessian::dead_columns() const { return parts_->dead; }

}  // namespace microscale
