// repack_scales on device memory.
#include <array>

#include "cuda/kernel_table.hpp"
#include "cuda/quantize/args.hpp"
#include "cuda/quantize/geometry.hpp"
#include "cuda/device/launch.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/quantize/operations.hpp"

namespace microscale::cuda {

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

}  // namespace microscale::cuda
