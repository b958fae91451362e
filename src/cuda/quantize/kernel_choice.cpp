#include "cuda/quantize/kernel_choice.hpp"

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

namespace {

std::string_view name_of(KernelMode mode) { return kernel_modes[static_cast<std::size_t>(mode)]; }
std::string_view name_of(Layout layout) { return kernel_layouts[layout == Layout::tiled_128x4]; }

}  // namespace

Entry<QuantizeArgs> quantize_kernel(Format format, DType input, KernelMode mode, Layout layout) {
  return kernels::quantize(info(format).name, to_string(input), name_of(mode), name_of(layout));
}

Entry<GroupedQuantizeArgs> grouped_kernel(Format format, DType input, KernelMode mode,
                                          Layout layout) {
  return kernels::grouped_quantize(info(format).name, to_string(input), name_of(mode),
                                   name_of(layout));
}

Entry<QuantizeArgs> small_kernel(Format format, DType input) {
  return kernels::quantize_small(info(format).name, to_string(input));
}

Entry<ColumnsArgs> columns_kernel(Format format, DType input, KernelMode mode, bool both) {
  const EntryFamily<ColumnsArgs>& family =
      both ? kernels::quantize_both : kernels::quantize_columns;
  return family(info(format).name, to_string(input), name_of(mode));
}

Entry<DequantizeArgs> dequantize_kernel(Format format, DType output) {
  return kernels::dequantize(info(format).name, to_string(output));
}

Entry<AbsMaxArgs> abs_max_kernel(DType input) { return kernels::abs_max(to_string(input)); }

Entry<FusedArgs> fused_kernel(std::string_view producer, Format format, DType input,
                              KernelMode mode) {
  return kernels::fused(producer, info(format).name, to_string(input), name_of(mode));
}

}  // namespace microscale::cuda
