// dequantize, repack_scales, repack_to_containers and back on device memory.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/operations.hpp"
#include "cuda/quantize/args.hpp"
#include "cuda/quantize/choose.hpp"
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

void repack_scales(Device& device, const BlockTensorView& input, Layout layout,
                   std::span<std::uint8_t> scales, Stream stream) {
  if (scales.empty()) return;
  const auto bytes = static_cast<std::int64_t>(scales.size());
  const std::array<Operand, 2> operands{
      Operand{"the input scales", input.scales.data(),
              static_cast<std::int64_t>(input.scales.size()), false},
      Operand{"the output scales", scales.data(), bytes, true}};
  check_operands(device, "repack_scales", operands);
  if (layout == input.shape.layout) {
    device.copy_on_device(scales.data(), input.scales.data(), bytes, stream);
    return;
  }
  const RepackArgs args{input.scales.data(), scales.data(), input.shape.lines(),
                        input.shape.blocks_per_line()};
  launch(device, kernels::repack(layout == Layout::tiled_128x4 ? "to_tiled" : "to_rows"),
         "repack_scales", repack_launch(args.lines, args.blocks), args, stream);
}

void repack_containers(Device& device, const std::uint8_t* input, std::uint8_t* output,
                       std::int64_t code_bytes, bool to_containers, Stream stream) {
  if (code_bytes == 0) return;
  const char* operation = to_containers ? "repack_to_containers" : "repack_from_containers";
  const std::array<Operand, 2> operands{Operand{to_containers ? "codes" : "containers", input,
                                                to_containers ? code_bytes : 2 * code_bytes, false},
                                        Operand{to_containers ? "containers" : "codes", output,
                                                to_containers ? 2 * code_bytes : code_bytes, true}};
  check_operands(device, operation, operands);
  launch(device,
         to_containers ? kernels::containers_from_codes() : kernels::codes_from_containers(),
         operation, container_launch(code_bytes), ContainerArgs{input, output, code_bytes}, stream);
}

}  // namespace microscale::cuda
