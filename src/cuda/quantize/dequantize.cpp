// dequantize on device memory.
#include <fmt/format.h>

#include <vector>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/operations.hpp"
#include "cuda/quantize/choose.hpp"
#include "cuda/quantize/args.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {

void dequantize(Device& device, const BlockTensorView& input, const MutableTensorView& output,
                Stream stream) {
  const BlockShape& shape = input.shape;
  const FormatInfo& format = info(shape.format);
  if (shape.axis != BlockAxis::cols || shape.cols % format.block != 0)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("dequantize: backend cuda wants blocks along the rows and columns that are a "
                    "multiple of {}; use another backend",
                    format.block));
  const std::int64_t elements = shape.rows * shape.cols, element = size_of(output.dtype);
  if (elements == 0) return;
  std::vector<Operand> operands{
      {"codes", input.codes.data(), static_cast<std::int64_t>(input.codes.size()), false},
      {"scales", input.scales.data(), static_cast<std::int64_t>(input.scales.size()), false},
      {"the output", output.data,
       extent_bytes(output.rows, output.cols, output.row_stride, element), true}};
  if (!format.e8m0_scale)
    operands.push_back({"the global scale", input.global_scale.device_pointer(), 4, false});
  check_operands(device, "dequantize", operands);
  check_row_stride("dequantize", output.rows, output.row_stride, element);

  DequantizeArgs args{};
  args.codes = input.codes.data();
  args.code_stride = shape.code_bytes_per_line();
  args.scales = input.scales.data();
  args.global_scale = format.e8m0_scale ? nullptr : input.global_scale.device_pointer();
  args.output = output.data;
  args.rows = output.rows;
  args.cols = output.cols;
  args.row_stride = output.row_stride;
  args.tiled = shape.layout == Layout::tiled_128x4;
  const Launch grid = dequantize_launch(output.rows, output.cols);
  args.column_shift = grid.column_shift;
  launch(device, dequantize_kernel(shape.format, output.dtype), "dequantize", grid, args, stream);
}

}  // namespace microscale::cuda
