#include "cuda/kernel_choice.hpp"

#include <fmt/format.h>

#include "cuda/kernel_names.hpp"

namespace microscale::cuda {

KernelMode kernel_mode(Format format, const Numerics& numerics) {
  if (numerics.rounding != Rounding::nearest_even) return KernelMode::general;
  if (numerics.scale_rule == ScaleRule::search) return KernelMode::search;
  const bool one_pass = info(format).e8m0_scale || numerics.scale_rule == ScaleRule::nearest;
  return one_pass ? KernelMode::plain : KernelMode::general;
}

std::string quantize_kernel(Format format, DType input, KernelMode mode, Layout layout) {
  return fmt::format("quantize_{}_{}_{}_{}", info(format).name, to_string(input),
                     kernel_modes[static_cast<std::size_t>(mode)],
                     kernel_layouts[layout == Layout::tiled_128x4]);
}

std::string columns_kernel(Format format, DType input, KernelMode mode, bool both) {
  return fmt::format("quantize_{}_{}_{}_{}", both ? "both" : "columns", info(format).name,
                     to_string(input), kernel_modes[static_cast<std::size_t>(mode)]);
}

std::string dequantize_kernel(Format format, DType output) {
  return fmt::format("dequantize_{}_{}", info(format).name, to_string(output));
}

std::string abs_max_kernel(DType input) { return fmt::format("abs_max_{}", to_string(input)); }

}  // namespace microscale::cuda
