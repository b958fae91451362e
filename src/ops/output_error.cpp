// output_error: tr(E H E^T) of errors and of weights, with products of the kernels.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/out_of_memory.hpp"
#include "core/threads.hpp"
#include "formats/integers.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "ops/check.hpp"
#include "ops/prepared_hessian.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

constexpr const char* operation = "output_error";
constexpr std::int64_t tile = 16;  // columns of one product

// Groups of rows that use a copy of a tile: it lies in pieces far from each other.
constexpr std::int64_t groups_at_once = 4;

// Columns [begin, begin + width) of the Hessian above its diagonal, zeros elsewhere, rows up to the
// last of these columns: row i at i * tile.
void copy_tile(std::span<const float> hessian, std::int64_t cols, std::int64_t begin,
               std::int64_t width, std::vector<float>& out) {
  out.assign(static_cast<std::size_t>((begin + width) * tile), 0.0f);
  for (std::int64_t i = 0; i < begin + width; ++i)
    for (std::int64_t c = std::max<std::int64_t>(0, i + 1 - begin); c < width; ++c)
      out[static_cast<std::size_t>(i * tile + c)] =
          hessian[static_cast<std::size_t>(i * cols + begin + c)];
}

// Rows side by side, and the sum of their quadratic forms.
struct Group {
  std::vector<float> values;
  double sum = 0;

  // The part of columns [begin, begin + width): v_j (H_jj v_j + 2 sum over i < j of H_ij v_i).
  void add(std::span<const float> hessian, std::int64_t begin, std::int64_t width,
           const std::vector<float>& above, const HessianKernels& kernels) {
    float sums[tile * hessian_rows] = {};
    kernels.add_products(values.data(), begin + width, above.data(), tile, sums);
    const auto cols = static_cast<std::int64_t>(values.size()) / hessian_rows;
    for (std::int64_t j = 0; j < width; ++j) {
      const double diagonal = hessian[static_cast<std::size_t>((begin + j) * (cols + 1))];
      for (std::int64_t r = 0; r < hessian_rows; ++r) {
        const double value = values[static_cast<std::size_t>((begin + j) * hessian_rows + r)];
        sum += value * (diagonal * value + 2.0 * static_cast<double>(sums[j * hessian_rows + r]));
      }
    }
  }
};

BlockTensorView rows_of(const BlockTensorView& whole, std::int64_t first, std::int64_t count) {
  BlockTensorView part = whole;
  part.shape.rows = count;
  const auto cut = [&](std::span<const std::uint8_t> bytes, std::int64_t line) {
    return bytes.subspan(static_cast<std::size_t>(first * line),
                         static_cast<std::size_t>(count * line));
  };
  part.codes = cut(whole.codes, whole.shape.code_bytes_per_line());
  part.scales = cut(whole.scales, whole.shape.blocks_per_line());
  return part;
}

// Rows from `first` on, and what quantizing changed in them.
void load(const TensorView& weights, const BlockTensorView& quantized, std::int64_t first,
          Group& errors, Group& rows) {
  const std::int64_t cols = weights.cols,
                     count = std::min<std::int64_t>(hessian_rows, weights.rows - first);
  std::vector<float> values(static_cast<std::size_t>(count * cols));
  dequantize(rows_of(quantized, first, count), packed(values.data(), DType::f32, count, cols),
             {.threads = 1});
  errors.values.resize(static_cast<std::size_t>(cols * hessian_rows));
  rows.values.resize(errors.values.size());
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t k = 0; k < cols; ++k) {
      const auto at = static_cast<std::size_t>(k * hessian_rows + r);
      rows.values[at] =
          load_dense(weights.data, weights.dtype, (first + r) * weights.row_stride + k);
      errors.values[at] = values[static_cast<std::size_t>(r * cols + k)] - rows.values[at];
    }
}

void check(const TensorView& weights, const BlockTensorView& quantized,
           std::span<const float> hessian) {
  const auto refuse = [](const std::string& text) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", operation, text));
  };
  check_view(operation, weights);
  const BlockShape& shape = quantized.shape;
  if (weights.memory != Memory::host || quantized.memory != Memory::host)
    refuse("weights or codes are in device memory; copy them to the host");
  if (shape.axis != BlockAxis::cols || shape.layout != Layout::row_major)
    refuse("blocks must run along the rows, with row-major scales");
  if (shape.rows != weights.rows || shape.cols != weights.cols)
    refuse(fmt::format("weights of {} x {}, but codes of {} x {}", weights.rows, weights.cols,
                       shape.rows, shape.cols));
  const auto wanted = static_cast<std::size_t>(weights.cols * weights.cols);
  if (hessian.size() != wanted)
    refuse(fmt::format("a Hessian of {} numbers for {} columns; pass {}, the full matrix",
                       hessian.size(), weights.cols, wanted));
  check_bytes(operation, "codes", static_cast<std::int64_t>(quantized.codes.size()),
              shape.code_bytes());
  check_bytes(operation, "scales", static_cast<std::int64_t>(quantized.scales.size()),
              shape.scale_bytes());
}

}  // namespace

OutputError output_error(const TensorView& given, const BlockTensorView& quantized,
                         std::span<const float> hessian, const Context& context) try {
  const TensorView weights = with_row_stride(given);
  check(weights, quantized, hessian);
  const HessianKernels& kernels = hessian_kernels(operation, context);
  const std::int64_t cols = weights.cols,
                     groups = ceil_div(weights.rows, std::int64_t{hessian_rows});
  std::vector<OutputError> parts(static_cast<std::size_t>(groups));
  parallel_for(ceil_div(groups, groups_at_once), context.threads, [&](std::int64_t index) {
    const std::int64_t first = index * groups_at_once,
                       last = std::min(first + groups_at_once, groups);
    std::vector<Group> errors, rows;
    for (std::int64_t group = first; group < last; ++group)
      load(weights, quantized, group * hessian_rows, errors.emplace_back(), rows.emplace_back());
    std::vector<float> above;
    for (std::int64_t begin = 0; begin < cols; begin += tile) {
      const std::int64_t width = std::min(tile, cols - begin);
      copy_tile(hessian, cols, begin, width, above);
      for (std::vector<Group>* all : {&errors, &rows})
        for (Group& group : *all) group.add(hessian, begin, width, above, kernels);
    }
    for (std::int64_t group = first; group < last; ++group) {
      const auto at = static_cast<std::size_t>(group - first);
      parts[static_cast<std::size_t>(group)] = {errors[at].sum, rows[at].sum};
    }
  });
  OutputError sum;
  for (const OutputError& part : parts) {
    sum.error += part.error;
    sum.power += part.power;
  }
  return sum;
} catch (const std::bad_alloc&) {
  throw_out_of_memory(operation);
}

}  // namespace microscale
