// quantize_with_hessian: checks, puts rows side by side in the order of processing, calls the
// kernels, puts codes and scales where they belong.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
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

constexpr const char* operation = "quantize_with_hessian";

void check(const HessianQuantizeOptions& o) {
  const auto refuse = [](const std::string& text) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", operation, text));
  };
  if (!o.hessian) refuse("no Hessian; pass a PreparedHessian");
  check_view(operation, o.input);
  if (o.input.memory != Memory::host) refuse("the input is in device memory; copy it to the host");
  if (o.input.cols != o.hessian->cols())
    refuse(fmt::format("an input of {} columns, but a Hessian of {}", o.input.cols,
                       o.hessian->cols()));
  const FormatInfo& format = info(o.hessian->format());
  if (o.scale_rule != ScaleRule::search && (o.scale_rule != ScaleRule::full || format.e8m0_scale))
    refuse(fmt::format("scale rule {} for {}; pass {}", to_string(o.scale_rule), format.name,
                       format.e8m0_scale ? "search" : "search or full"));
  if (format.e8m0_scale)
    check_no_global_scale(operation, o.global_scale, format);
  else if (o.global_scale.given())
    check_global_scale(operation, o.global_scale, false);
}

float global_scale_of(const HessianQuantizeOptions& o, const Context& context) {
  const AbsMax range = abs_max(o.input, context);
  if (range.non_finite >= 0)
    throw Error(
        ErrorCode::bad_input,
        fmt::format("{}: the input holds NaN or infinity, first at row {}, column {}", operation,
                    range.non_finite / o.input.cols, range.non_finite % o.input.cols));
  if (info(o.hessian->format()).e8m0_scale) return 1.0f;
  return o.global_scale.given() ? o.global_scale.value()
                                : nvfp4_global_scale(o.tensor_amax.value_or(range.amax));
}

// A group of rows and what becomes of it, of one worker.
class Group {
 public:
  Group(const PreparedHessian::Parts& parts, ScaleRule rule, float global_scale)
      : parts_(parts),
        block_(info(parts.options.format).block),
        weights_(elements()),
        errors_(elements()),
        codes_(elements()),
        scales_(parts.order.size() * hessian_rows) {
    rows_.format = parts.options.format;
    rows_.rule = rule;
    rows_.global_scale = global_scale;
    rows_.blocks = static_cast<std::int64_t>(parts.order.size());
    rows_.weights = weights_.data();
    rows_.factor = parts.factor.empty() ? nullptr : parts.factor.data();
    rows_.pivots = parts.pivots.data();
    rows_.hessian_blocks = parts.hessian_blocks.data();
    rows_.errors = errors_.data();
    rows_.codes = codes_.data();
    rows_.scales = scales_.data();
  }

  void quantize(const HessianKernels& kernels, const TensorView& input, std::int64_t first) {
    const std::int64_t count = std::min<std::int64_t>(hessian_rows, input.rows - first);
    for (std::int64_t r = 0; r < hessian_rows; ++r)
      for (std::int64_t k = 0; k < input.cols; ++k)
        weights_[static_cast<std::size_t>(k * hessian_rows + r)] =
            r < count
                ? load_dense(input.data, input.dtype, (first + r) * input.row_stride + column(k))
                : 0.0f;
    kernels.quantize(rows_);
    std::uint32_t largest = 0;
    for (const float error : errors_)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(error) & 0x7FFFFFFFu);
    if (largest >= 0x7F800000u)
      throw Error(ErrorCode::bad_input,
                  fmt::format("{}: what was to make errors good has no finite number in rows {} to "
                              "{}; give the Hessian more damping than {}",
                              operation, first, first + count - 1, parts_.damping));
  }

  // Row `row` of the group.
  void write(std::int64_t row, std::uint8_t* codes, std::uint8_t* scales) const {
    for (std::int64_t b = 0; b < rows_.blocks; ++b) {
      const std::int64_t to = parts_.order[static_cast<std::size_t>(b)];
      const std::uint8_t* from = codes_.data() + b * block_ * hessian_rows + row;
      for (std::int64_t i = 0; i < block_ / 2; ++i, from += 2 * hessian_rows)
        codes[to * block_ / 2 + i] = static_cast<std::uint8_t>(from[0] | from[hessian_rows] << 4);
      scales[to] = scales_[static_cast<std::size_t>(b * hessian_rows + row)];
    }
  }

 private:
  std::size_t elements() const {
    return static_cast<std::size_t>(parts_.options.cols * hessian_rows);
  }
  std::int64_t column(std::int64_t k) const {
    return parts_.order[static_cast<std::size_t>(k / block_)] * block_ + k % block_;
  }

  const PreparedHessian::Parts& parts_;
  std::int64_t block_;
  std::vector<float> weights_, errors_;
  std::vector<std::uint8_t> codes_, scales_;
  HessianRows rows_;
};

}  // namespace

float quantize_with_hessian_into(const HessianQuantizeOptions& given, std::span<std::uint8_t> codes,
                                 std::span<std::uint8_t> scales, const Context& context) try {
  HessianQuantizeOptions o = given;
  o.input = with_row_stride(given.input);
  check(o);
  const HessianKernels& kernels = hessian_kernels(operation, context);
  const BlockShape shape{o.input.rows, o.input.cols, o.hessian->format()};
  check_bytes(operation, "codes", static_cast<std::int64_t>(codes.size()), shape.code_bytes());
  check_bytes(operation, "scales", static_cast<std::int64_t>(scales.size()), shape.scale_bytes());
  const float global_scale = global_scale_of(o, context);
  parallel_for(
      ceil_div(o.input.rows, std::int64_t{hessian_rows}), context.threads, [&](std::int64_t index) {
        Group group(o.hessian->parts(), o.scale_rule, global_scale);
        const std::int64_t first = index * hessian_rows;
        group.quantize(kernels, o.input, first);
        for (std::int64_t row = first; row < std::min(first + hessian_rows, o.input.rows); ++row)
          group.write(row - first, codes.data() + row * shape.code_bytes_per_line(),
                      scales.data() + row * shape.blocks_per_line());
      });
  return global_scale;
} catch (const std::bad_alloc&) {
  throw_out_of_memory(operation);
}

BlockTensor quantize_with_hessian(const HessianQuantizeOptions& options,
                                  const Context& context) try {
  check(options);
  BlockTensor output({options.input.rows, options.input.cols, options.hessian->format()});
  output.global_scale =
      quantize_with_hessian_into(options, output.codes(), output.scales(), context);
  return output;
} catch (const std::bad_alloc&) {
  throw_out_of_memory(operation);
}

}  // namespace microscale
