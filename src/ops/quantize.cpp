// quantize: checks, chooses a backend, cuts the work into items and calls the kernel. No arithmetic
// here.
#include "microscale/quantize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "core/out_of_memory.hpp"
#include "core/threads.hpp"
#include "formats/block_weights.hpp"
#include "formats/compat.hpp"
#include "layouts/repack.hpp"
#include "microscale/error.hpp"
#include "ops/backends.hpp"
#include "ops/check.hpp"
#include "ops/operand_memory.hpp"
#include "ops/quantize_check.hpp"
#include "ops/staging.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

BlockShape shape_of(const QuantizeOptions& options) {
  return {options.input.rows, options.input.cols, options.format, options.axis, options.layout};
}

}  // namespace

void check_quantize_options(const QuantizeOptions& o, const BlockShape& shape, bool on_device) {
  check_view("quantize", o.input);
  const FormatInfo& format = info(o.format);
  if (shape.length() % format.block != 0 && o.padding == Padding::refuse)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("quantize: {} elements along the block axis are no multiple of {}'s block of "
                    "{}; pad the tensor or set padding to Padding::zero",
                    shape.length(), format.name, format.block));
  check_numerics("quantize", o.numerics, o.format);
  if (!o.weights.empty() && static_cast<std::int64_t>(o.weights.size()) != shape.length())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("quantize: {} importance weights for {} elements along the block axis",
                            o.weights.size(), shape.length()));
  for (float weight : o.weights)
    if (!(weight >= 0) || !std::isfinite(weight))
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("quantize: importance weight {}; weights must be finite and not negative",
                      weight));
  if (format.e8m0_scale)
    check_no_global_scale("quantize", o.global_scale, format);
  else if (o.global_scale.given())
    check_global_scale("quantize", o.global_scale, on_device);
}

GlobalScale device_global_scale(const QuantizeOptions& o) {
  if (info(o.format).e8m0_scale) return 1.0f;
  return o.global_scale.given() ? o.global_scale : GlobalScale::on_device(o.computed_global_scale);
}

namespace {

// The global scale of the call, after one read of the input where that is needed.
ToolGlobal resolve_global_scale(const QuantizeOptions& o, const Context& context) {
  const bool needs_amax = o.format == Format::nvfp4 && !o.global_scale.given() && !o.tensor_amax;
  AbsMax range;
  if (needs_amax || o.non_finite == NonFinite::refuse) range = abs_max(o.input, context);
  if (o.non_finite == NonFinite::refuse && range.non_finite >= 0)
    throw Error(
        ErrorCode::bad_input,
        fmt::format("quantize: the input holds NaN or infinity, first at row {}, column {}; "
                    "repair it or choose NonFinite::encode",
                    range.non_finite / o.input.cols, range.non_finite % o.input.cols));
  if (o.format != Format::nvfp4) return {};
  const Compat compat = o.numerics.compat;
  return o.global_scale.given()
             ? tool_global_from_decode(compat, o.global_scale.value())
             : tool_global(compat, o.tensor_amax.value_or(range.amax), o.input.dtype);
}

}  // namespace

GlobalScale quantize_into(const QuantizeOptions& given, std::span<std::uint8_t> codes,
                          std::span<std::uint8_t> scales, const Context& context) try {
  QuantizeOptions o = given;
  o.input = with_row_stride(given.input);
  const BlockShape shape = shape_of(o);
  const bool on_device =
      runs_on_device("quantize", context,
                     {operand("the input", o.input),
                      {"the output", o.input.memory, {codes.data(), scales.data()}}});
  check_quantize_options(o, shape, on_device);
  check_bytes("quantize", "codes", static_cast<std::int64_t>(codes.size()), shape.code_bytes());
  check_bytes("quantize", "scales", static_cast<std::int64_t>(scales.size()), shape.scale_bytes());
  if (on_device) {
    gpu_operations("quantize").quantize(o, codes, scales, context.stream);
    return device_global_scale(o);
  }

  const FormatInfo& format = info(o.format);
  const std::int64_t blocks = shape.blocks_per_line(), element = size_of(o.input.dtype);
  const bool along_rows = o.axis == BlockAxis::cols;
  const bool staged = !along_rows || shape.length() % format.block != 0;
  std::vector<float> weights;
  if (!o.weights.empty()) weights = relative_weights(o.weights, blocks, format.block);

  QuantizeLines call;
  call.input_type = o.input.dtype;
  call.input_stride = o.input.row_stride;
  call.format = o.format;
  call.numerics = o.numerics;
  const ToolGlobal global = resolve_global_scale(o, context);
  call.global_scale = global.decode;
  call.tool_global = global.own;
  call.index_line_stride = along_rows ? static_cast<std::uint64_t>(o.input.cols) : 1;
  call.index_step = along_rows ? 1 : static_cast<std::uint64_t>(o.input.cols);
  call.code_stride = shape.code_bytes_per_line();
  call.scale_stride = blocks;
  call.weights = weights.empty() ? nullptr : weights.data();
  const KernelTable& table = choose_backend(call, context);

  // Kernels write row-major scales; another layout is made of them at the end.
  std::vector<std::uint8_t> rows;
  if (o.layout != Layout::row_major) rows.resize(static_cast<std::size_t>(shape.lines() * blocks));
  std::uint8_t* row_major = o.layout == Layout::row_major ? scales.data() : rows.data();

  const WorkGrid grid(shape.lines(), blocks, format.block, o.axis);
  parallel_for(grid.count(), context.threads, [&](std::int64_t index) {
    const WorkItem item = grid.item(index);
    const std::int64_t first = item.block * format.block;
    QuantizeLines part = call;
    std::unique_ptr<std::uint8_t[]> staging;
    if (staged) {
      staging.reset(new std::uint8_t[static_cast<std::size_t>(item.lines * item.blocks *
                                                              format.block * element)]);
      gather_lines(o.input, o.axis, item, format.block, staging.get());
      part.input = staging.get();
      part.input_stride = item.blocks * format.block;
    } else {
      part.input = static_cast<const std::uint8_t*>(o.input.data) +
                   (item.line * o.input.row_stride + first) * element;
    }
    part.lines = item.lines;
    part.blocks = item.blocks;
    if (part.weights) part.weights += first;
    part.first_index = o.first_index +
                       static_cast<std::uint64_t>(item.line) * call.index_line_stride +
                       static_cast<std::uint64_t>(first) * call.index_step;
    part.codes = codes.data() + item.line * call.code_stride + code_bytes(format, first);
    part.scales = row_major + item.line * call.scale_stride + item.block;
    table.quantize(part);
  });
  if (o.layout != Layout::row_major) {
    BlockShape row_shape = shape;
    row_shape.layout = Layout::row_major;
    repack_scale_bytes(row_shape, rows, o.layout, scales);
  }
  return call.global_scale;
} catch (const std::bad_alloc&) {
  throw_out_of_memory("quantize_into");
}

BlockTensor quantize(const QuantizeOptions& options, const Context& context) try {
  check_view("quantize", options.input);
  if (context.backend == Backend::cuda || options.input.memory == Memory::device)
    throw Error(ErrorCode::unsupported,
                "quantize: backend cuda writes to device memory of the caller; call "
                "quantize_into with buffers sized by BlockShape");
  BlockTensor output(shape_of(options));
  output.global_scale = quantize_into(options, output.codes(), output.scales(), context).value();
  return output;
} catch (const std::bad_alloc&) {
  throw_out_of_memory("quantize");
}

}  // namespace microscale
