// dequantize and repack_scales: checks, chooses a backend, cuts the work into items. No arithmetic
// here.
#include <fmt/format.h>

#include <memory>
#include <new>
#include <vector>

#include "core/threads.hpp"
#include "core/out_of_memory.hpp"
#include "layouts/repack.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "ops/backends.hpp"
#include "ops/check.hpp"
#include "ops/operand_memory.hpp"
#include "ops/staging.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

void check_input(const char* operation, const BlockTensorView& input) {
  if (input.shape.rows < 0 || input.shape.cols < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: a block tensor of {} x {}; rows and cols must not be negative",
                            operation, input.shape.rows, input.shape.cols));
  check_bytes(operation, "codes", static_cast<std::int64_t>(input.codes.size()),
              input.shape.code_bytes());
  check_bytes(operation, "scales", static_cast<std::int64_t>(input.scales.size()),
              input.shape.scale_bytes());
}

}  // namespace

void dequantize(const BlockTensorView& input, const MutableTensorView& given,
                const Context& context) try {
  const MutableTensorView output = with_row_stride(given);
  const BlockShape& shape = input.shape;
  check_input("dequantize", input);
  check_view("dequantize", output);
  if (output.rows != shape.rows || output.cols != shape.cols)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("dequantize: the output is {} x {}, the block tensor {} x {}",
                            output.rows, output.cols, shape.rows, shape.cols));
  const bool on_device = runs_on_device(
      "dequantize", context, {operand("the block tensor", input), operand("the output", output)});
  const FormatInfo& format = info(shape.format);
  if (!format.e8m0_scale) check_global_scale("dequantize", input.global_scale, on_device);
  if (on_device) {
    gpu_operations("dequantize").dequantize(input, output, context.stream);
    return;
  }
  const std::int64_t blocks = shape.blocks_per_line(), element = size_of(output.dtype);
  const bool staged = shape.axis == BlockAxis::rows || shape.length() % format.block != 0;
  std::vector<std::uint8_t> rows;
  const std::uint8_t* scales = input.scales.data();
  if (shape.layout != Layout::row_major) {
    rows.resize(static_cast<std::size_t>(shape.lines() * blocks));
    repack_scale_bytes(shape, input.scales, Layout::row_major, rows);
    scales = rows.data();
  }

  DequantizeLines call;
  call.code_stride = shape.code_bytes_per_line();
  call.scale_stride = blocks;
  call.format = shape.format;
  if (!format.e8m0_scale) call.global_scale = input.global_scale.value();
  call.output_type = output.dtype;
  call.output_stride = output.row_stride;
  const KernelTable& table = choose_backend(call, context);

  const WorkGrid grid(shape.lines(), blocks, format.block, shape.axis);
  parallel_for(grid.count(), context.threads, [&](std::int64_t index) {
    const WorkItem item = grid.item(index);
    const std::int64_t first = item.block * format.block;
    DequantizeLines part = call;
    part.codes = input.codes.data() + item.line * call.code_stride + code_bytes(format, first);
    part.scales = scales + item.line * call.scale_stride + item.block;
    part.lines = item.lines;
    part.blocks = item.blocks;
    if (!staged) {
      part.output = static_cast<std::uint8_t*>(output.data) +
                    (item.line * output.row_stride + first) * element;
      table.dequantize(part);
      return;
    }
    const std::unique_ptr<std::uint8_t[]> staging(new std::uint8_t[static_cast<std::size_t>(
        item.lines * item.blocks * format.block * element)]);
    part.output = staging.get();
    part.output_stride = item.blocks * format.block;
    part.read_soon = true;
    table.dequantize(part);
    scatter_lines(staging.get(), shape.axis, item, format.block, output);
  });
} catch (const std::bad_alloc&) {
  throw_out_of_memory("dequantize");
}

void repack_scales(const BlockTensorView& input, Layout layout, std::span<std::uint8_t> scales,
                   const Context& context) {
  check_input("repack_scales", input);
  BlockShape target = input.shape;
  target.layout = layout;
  check_bytes("repack_scales", "output", static_cast<std::int64_t>(scales.size()),
              target.scale_bytes());
  if (runs_on_device(
          "repack_scales", context,
          {operand("the block tensor", input), {"the output", input.memory, {scales.data()}}}))
    gpu_operations("repack_scales").repack_scales(input, layout, scales, context.stream);
  else
    repack_scale_bytes(input.shape, input.scales, layout, scales);
}

}  // namespace microscale
