#include "cuda/quantize/choose.hpp"

#include <fmt/format.h>

#include "cuda/block/quantize_args.hpp"
#include "formats/elements.hpp"
#include "microscale/error.hpp"

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

// Slabs that a thread block goes through, by measurement: one after another costs order in
// DRAM, but what a thread block prepares (addresses; NVFP4: a table) is prepared less often.
int row_tiles_each(Format format, KernelMode mode) {
  if (!info(format).e8m0_scale) return 2;
  return mode == KernelMode::search ? 4 : 1;
}

RowsPlan choose_rows(const DeviceInfo& device, const QuantizeOptions& o, KernelMode mode,
                     bool scales_aligned) {
  const std::int64_t rows = o.input.rows, cols = o.input.cols;
  const DType dtype = o.input.dtype;
  const bool tiled = o.layout == Layout::tiled_128x4;
  const int block = info(o.format).block;
  const Entry<QuantizeArgs> kernel = quantize_kernel(o.format, dtype, mode, o.layout);
  if (mode == KernelMode::general) return {kernel, block_launch(rows, cols, block, tiled), {}};
  if (mode == KernelMode::plain && !tiled &&
      rows * cols <= small_elements(block, device.multiprocessors)) {
    const TiledLaunch shape = small_launch(rows, cols, block, scales_aligned);
    return {kernels::quantize_small(info(o.format).name, to_string(dtype)), shape.grid,
            shape.tiles};
  }
  const int resident = device.multiprocessors * resident_blocks(mode == KernelMode::search,
                                                                static_cast<int>(size_of(dtype)));
  const TiledLaunch shape =
      quantize_launch(rows, cols, block, tiled, scales_aligned, row_tiles_each(o.format, mode),
                      resident, mode != KernelMode::search);
  return {kernel, shape.grid, shape.tiles};
}

}  // namespace

QuantizePlan choose(const DeviceInfo& device, const QuantizeOptions& o, Axes axes,
                    bool scales_aligned) {
  const KernelMode mode = axes == Axes::rows ? row_kernel_mode(o.format, o.numerics)
                                             : kernel_mode(o.format, o.numerics);
  // The general kernels take one axis at a time.
  const bool one_read = axes == Axes::both && mode != KernelMode::general;
  QuantizePlan plan;
  if (axes != Axes::columns && !one_read) plan.rows = choose_rows(device, o, mode, scales_aligned);
  if (axes == Axes::rows) return plan;
  const std::int64_t rows = o.input.rows, cols = o.input.cols;
  const bool tiled = o.layout == Layout::tiled_128x4;
  plan.columns = {columns_kernel(o.format, o.input.dtype, mode, one_read),
                  mode == KernelMode::general
                      ? columns_block_launch(rows, cols, info(o.format).block, tiled)
                      : columns_launch(rows, cols, size_of(o.input.dtype), tiled)};
  return plan;
}

GroupedPlan choose(const GroupedQuantizeOptions& o, bool scales_aligned) {
  const KernelMode mode = kernel_mode(o.format, o.numerics);
  const bool own_profile = o.numerics.compat == Compat::none || o.numerics.compat == Compat::ocp;
  if (mode == KernelMode::general || !own_profile)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("grouped_quantize: backend cuda offers rounding nearest_even with scale rule "
                    "search or one of a single pass, and no profile of another tool (asked for: "
                    "{}, {}); choose one of these, or call quantize_into per expert",
                    to_string(o.numerics.scale_rule), to_string(o.numerics.rounding)));
  const bool tiled = o.layout == Layout::tiled_128x4;
  const int block = info(o.format).block;
  const GroupedLaunch shape =
      grouped_launch(o.input.rows, o.input.cols, o.groups.experts, block, tiled);
  const int shift = shape.launch.column_shift;
  GroupedPlan plan{grouped_kernel(o.format, o.input.dtype, mode, o.layout),
                   shape.launch,
                   {},
                   shape.rows_per_unit,
                   shape.tiles_per_unit};
  plan.tiles.column_shift = shift;
  plan.tiles.whole_columns = static_cast<std::int32_t>(o.input.cols / (chunk_elements << shift));
  plan.tiles.scale_words =
      tiled || rows_have_scale_words(o.input.cols, block, shift, scales_aligned);
  return plan;
}

Entry<QuantizeArgs> quantize_kernel(Format format, DType input, KernelMode mode, Layout layout) {
  return kernels::quantize(info(format).name, to_string(input), name_of(mode), name_of(layout));
}

Entry<GroupedQuantizeArgs> grouped_kernel(Format format, DType input, KernelMode mode,
                                          Layout layout) {
  return kernels::grouped_quantize(info(format).name, to_string(input), name_of(mode),
                                   name_of(layout));
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
