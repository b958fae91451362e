#include "cuda/quantize/kernel_choice.hpp"

#include <fmt/format.h>

#include "cuda/quantize/e8m0_rule.hpp"
#include "cuda/quantize/kernel_names.hpp"
#include "formats/elements.hpp"

namespace microscale::cuda {

KernelMode kernel_mode(Format format, const Numerics& numerics) {
  if (numerics.rounding != Rounding::nearest_even) return KernelMode::general;
  if (numerics.scale_rule == ScaleRule::search) return KernelMode::search;
  const bool one_pass = info(format).e8m0_scale || numerics.scale_rule == ScaleRule::nearest;
  return one_pass ? KernelMode::plain : KernelMode::general;
}

KernelMode row_kernel_mode(Format format, const Numerics& numerics) {
  const bool four_over_six = numerics.scale_rule == ScaleRule::four_over_six ||
                             numerics.scale_rule == ScaleRule::four_over_six_mae;
  if (four_over_six && numerics.rounding == Rounding::nearest_even) return KernelMode::search;
  return kernel_mode(format, numerics);
}

void set_numerics(QuantizeArgs& args, Format format, const Numerics& n) {
  const E8m0Rule rule = with_codec(
      info(format).element, [&](auto codec) { return e8m0_rule<decltype(codec)>(n.scale_rule); });
  args.scale_addend = rule.addend;
  args.emax = rule.emax;
  args.zero_byte = rule.zero_byte;
  args.nan_propagates = n.nan == NanPolicy::propagate;
  args.inf_is_nan = n.inf == InfPolicy::nan_block;
  args.zero_is_positive = n.zero_code == ZeroCode::positive;
  args.seed = n.seed;
  args.scale_rule = static_cast<std::int32_t>(n.scale_rule);
  args.rounding = static_cast<std::int32_t>(n.rounding);
}

std::string quantize_kernel(Format format, DType input, KernelMode mode, Layout layout) {
  return fmt::format("quantize_{}_{}_{}_{}", info(format).name, to_string(input),
                     kernel_modes[static_cast<std::size_t>(mode)],
                     kernel_layouts[layout == Layout::tiled_128x4]);
}

std::string small_kernel(Format format, DType input) {
  return fmt::format("quantize_small_{}_{}", info(format).name, to_string(input));
}

std::string columns_kernel(Format format, DType input, KernelMode mode, bool both) {
  return fmt::format("quantize_{}_{}_{}_{}", both ? "both" : "columns", info(format).name,
                     to_string(input), kernel_modes[static_cast<std::size_t>(mode)]);
}

std::string dequantize_kernel(Format format, DType output) {
  return fmt::format("dequantize_{}_{}", info(format).name, to_string(output));
}

std::string abs_max_kernel(DType input) { return fmt::format("abs_max_{}", to_string(input)); }

std::string fused_kernel(const char* producer, Format format, DType input, KernelMode mode) {
  return fmt::format("fused_{}_{}_{}_{}", producer, info(format).name, to_string(input),
                     kernel_modes[static_cast<std::size_t>(mode)]);
}

}  // namespace microscale::cuda
