// The fused operations: check, then either the device's kernel, or tiles of rows made in FP32 and
// given to the quantizer, or stored. No arithmetic here.
#include "microscale/fused.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "core/out_of_memory.hpp"
#include "seam/row_kernels.hpp"
#include "core/threads.hpp"
#include "formats/compat.hpp"
#include "layouts/repack.hpp"
#include "microscale/error.hpp"
#include "ops/backends.hpp"
#include "ops/check.hpp"
#include "ops/operand_memory.hpp"
#include "seam/gpu_operations.hpp"
#include "seam/matmul_kernels.hpp"

namespace microscale {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, sentence);
}

void check_matrix(const char* operation, const TensorView& m) { check_view(operation, m); }

void check_same(const char* operation, const char* what, const TensorView& m,
                const TensorView& like) {
  check_matrix(operation, m);
  if (m.rows != like.rows || m.cols != like.cols || m.dtype != like.dtype)
    refuse(fmt::format("{}: {} is {} x {} {}, the input {} x {} {}; they must agree", operation,
                       what, m.rows, m.cols, to_string(m.dtype), like.rows, like.cols,
                       to_string(like.dtype)));
}

BlockShape check_output(const char* operation, const QuantizedOutput& o, const TensorView& input,
                        bool on_device) {
  const FormatInfo& format = info(o.format);
  const BlockShape shape{input.rows, input.cols, o.format, BlockAxis::cols, o.layout};
  if (input.cols % format.block != 0)
    refuse(fmt::format("{}: {} columns are no multiple of {}'s block of {}; pad the matrix",
                       operation, input.cols, format.name, format.block));
  check_numerics(operation, o.numerics, o.format);
  if (follows_tool(o.numerics, o.format))
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: the profile of another tool ({}) is for matrices from memory; leave "
                    "compat at none, or make the matrix and call quantize_into",
                    operation, to_string(o.numerics.compat)));
  check_bytes(operation, "codes", static_cast<std::int64_t>(o.codes.size()), shape.code_bytes());
  check_bytes(operation, "scales", static_cast<std::int64_t>(o.scales.size()), shape.scale_bytes());
  if (format.e8m0_scale)
    check_no_global_scale(operation, o.global_scale, format);
  else
    check_global_scale(operation, o.global_scale, on_device);
  return shape;
}

/// About 64 Ki floats a tile: they stay in a core's cache between producer and quantizer.
std::int64_t tile_rows(std::int64_t rows, std::int64_t cols) {
  return std::clamp<std::int64_t>((1 << 16) / cols, 1, rows);
}

// Tiles of rows on all threads: `produce(first, count, floats)`, then the quantizer.
template <class Produce>
void quantize_rows(const BlockShape& shape, const QuantizedOutput& o, const Context& context,
                   Produce&& produce) {
  if (shape.rows == 0 || shape.cols == 0) {
    std::fill(o.scales.begin(), o.scales.end(), std::uint8_t{0});
    return;
  }
  const FormatInfo& format = info(o.format);
  QuantizeLines call;
  call.input_type = DType::f32;
  call.input_stride = shape.cols;
  call.format = o.format;
  call.numerics = o.numerics;
  call.global_scale = format.e8m0_scale ? 1.0f : o.global_scale.value();
  call.blocks = shape.blocks_per_line();
  call.index_line_stride = static_cast<std::uint64_t>(shape.cols);
  call.code_stride = shape.code_bytes_per_line();
  call.scale_stride = call.blocks;
  const KernelTable& table = choose_backend(call, context);

  BlockShape row_shape = shape;
  row_shape.layout = Layout::row_major;
  std::vector<std::uint8_t> rows;
  if (o.layout != Layout::row_major) rows.resize(static_cast<std::size_t>(row_shape.scale_bytes()));
  std::uint8_t* scales = o.layout == Layout::row_major ? o.scales.data() : rows.data();

  const std::int64_t tile = tile_rows(shape.rows, shape.cols);
  parallel_for((shape.rows + tile - 1) / tile, context.threads, [&](std::int64_t index) {
    QuantizeLines part = call;
    const std::int64_t first = index * tile;
    part.lines = std::min(tile, shape.rows - first);
    const std::unique_ptr<float[]> values(
        new float[static_cast<std::size_t>(part.lines * shape.cols)]);
    produce(first, part.lines, values.get());
    part.input = values.get();
    part.first_index = static_cast<std::uint64_t>(first) * call.index_line_stride;
    part.codes = o.codes.data() + first * call.code_stride;
    part.scales = scales + first * call.scale_stride;
    table.quantize(part);
  });
  if (o.layout != Layout::row_major) repack_scale_bytes(row_shape, rows, o.layout, o.scales);
}

/// The options of a norm with strides that are set, checked but for where the result goes.
RmsNormOptions checked(const char* operation, const RmsNormOptions& given) {
  RmsNormOptions o = given;
  o.input = with_row_stride(given.input);
  o.residual = with_row_stride(given.residual);
  o.sum = with_row_stride(given.sum);
  check_matrix(operation, o.input);
  if (!(o.epsilon >= 0) || !std::isfinite(o.epsilon))
    refuse(
        fmt::format("{}: epsilon is {}; it must be finite and not negative", operation, o.epsilon));
  if ((o.residual.data != nullptr) != (o.sum.data != nullptr))
    refuse(fmt::format(
        "{}: a residual and the sum to be written belong together; pass both (the sum may "
        "be the residual's memory) or neither",
        operation));
  if (o.residual.data != nullptr) {
    check_same(operation, "the residual", o.residual, o.input);
    const TensorView sum{o.sum.data, o.sum.dtype, o.sum.rows, o.sum.cols, o.sum.row_stride};
    check_same(operation, "the sum", sum, o.input);
    if (o.sum.data == o.residual.data && o.sum.row_stride != o.residual.row_stride &&
        o.input.rows > 1)
      refuse(fmt::format("{}: the sum lies on the residual with another row_stride ({}, not {})",
                         operation, o.sum.row_stride, o.residual.row_stride));
  }
  return o;
}

}  // namespace

void silu_mul_quantize_into(const SiluMulOptions& given, const Context& context) try {
  SiluMulOptions o = given;
  o.gate = with_row_stride(given.gate);
  o.up = with_row_stride(given.up);
  constexpr const char* operation = "silu_mul_quantize";
  check_matrix(operation, o.gate);
  check_same(operation, "up", o.up, o.gate);
  const bool on_device = runs_on_device(
      operation, context,
      {operand("the gate", o.gate), operand("up", o.up), operand("the output", o.output)});
  const BlockShape shape = check_output(operation, o.output, o.gate, on_device);
  if (on_device) return gpu_operations(operation).silu_mul_quantize(o, context.stream);
  const RowKernels& kernels = *choose_backend(operation, context).rows;
  quantize_rows(shape, o.output, context,
                [&](std::int64_t first, std::int64_t count, float* values) {
                  kernels.silu_mul(o, first, count, values);
                });
} catch (const std::bad_alloc&) {
  throw_out_of_memory("silu_mul_quantize_into");
}

void rms_norm_quantize_into(const RmsNormOptions& given, const Context& context) try {
  constexpr const char* operation = "rms_norm_quantize";
  const RmsNormOptions o = checked(operation, given);
  const Memory memory = o.input.memory;
  const bool residual = o.residual.data != nullptr;
  const bool on_device =
      runs_on_device(operation, context,
                     {operand("the input", o.input),
                      {"the weight", memory, {o.weight}},
                      operand("the residual", residual ? o.residual : o.input),
                      {"the sum", residual ? o.sum.memory : memory, {o.sum.data}},
                      operand("the output", o.output)});
  const BlockShape shape = check_output(operation, o.output, o.input, on_device);
  if (on_device) return gpu_operations(operation).rms_norm_quantize(o, context.stream);
  const RowKernels& kernels = *choose_backend(operation, context).rows;
  quantize_rows(shape, o.output, context,
                [&](std::int64_t first, std::int64_t count, float* values) {
                  kernels.rms_norm(o, first, count, values);
                });
} catch (const std::bad_alloc&) {
  throw_out_of_memory("rms_norm_quantize_into");
}

void rms_norm_into(const RmsNormOptions& given, const MutableTensorView& to,
                   const Context& context) try {
  constexpr const char* operation = "rms_norm";
  const RmsNormOptions o = checked(operation, given);
  const MutableTensorView normed = with_row_stride(to);
  const TensorView result{normed.data, normed.dtype, normed.rows, normed.cols, normed.row_stride};
  check_same(operation, "the result", result, o.input);
  if (o.input.cols % 16 != 0)
    refuse(fmt::format("{}: {} columns; they must be a multiple of 16", operation, o.input.cols));
  const Memory memory = o.input.memory;
  const bool residual = o.residual.data != nullptr;
  check_runs_on_host(operation, context,
                     {operand("the input", o.input),
                      {"the weight", memory, {o.weight}},
                      operand("the residual", residual ? o.residual : o.input),
                      {"the sum", residual ? o.sum.memory : memory, {o.sum.data}},
                      {"the result", normed.memory, {normed.data}}});
  if (o.input.rows == 0 || o.input.cols == 0) return;
  const KernelTable& table = choose_backend(operation, context);
  const std::int64_t tile = tile_rows(o.input.rows, o.input.cols);
  parallel_for((o.input.rows + tile - 1) / tile, context.threads, [&](std::int64_t index) {
    const std::int64_t first = index * tile, last = std::min(first + tile, o.input.rows);
    const std::unique_ptr<float[]> values(new float[static_cast<std::size_t>(o.input.cols)]);
    for (std::int64_t row = first; row < last; ++row) {
      table.rows->rms_norm(o, row, 1, values.get());
      table.matmul->store(values.get(), o.input.cols, normed.dtype,
                          static_cast<std::uint8_t*>(normed.data) +
                              row * normed.row_stride * size_of(normed.dtype));
    }
  });
} catch (const std::bad_alloc&) {
  throw_out_of_memory("rms_norm_into");
}

void hadamard_quantize_into(const HadamardOptions& given, const Context& context) try {
  HadamardOptions o = given;
  o.input = with_row_stride(given.input);
  constexpr const char* operation = "hadamard_quantize";
  check_matrix(operation, o.input);
  if (o.order != 16 && o.order != 32 && o.order != 64 && o.order != 128)
    refuse(fmt::format("{}: order {}; it must be 16, 32, 64 or 128", operation, o.order));
  if (o.input.cols % o.order != 0)
    refuse(fmt::format("{}: {} columns are no multiple of the order {}; pad the matrix", operation,
                       o.input.cols, o.order));
  const bool on_device = runs_on_device(
      operation, context, {operand("the input", o.input), operand("the output", o.output)});
  const BlockShape shape = check_output(operation, o.output, o.input, on_device);
  if (on_device) return gpu_operations(operation).hadamard_quantize(o, context.stream);
  const RowKernels& kernels = *choose_backend(operation, context).rows;
  quantize_rows(shape, o.output, context,
                [&](std::int64_t first, std::int64_t count, float* values) {
                  kernels.hadamard(o, first, count, values);
                });
} catch (const std::bad_alloc&) {
  throw_out_of_memory("hadamard_quantize_into");
}

}  // namespace microscale
