// quantize on device memory: along rows, along columns, along both; many experts' rows.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/operations.hpp"
#include "cuda/quantize/choose.hpp"
#include "cuda/quantize/args.hpp"
#include "microscale/error.hpp"
#include "seam/expert_rows.hpp"

namespace microscale::cuda {
namespace {

[[noreturn]] void refuse(const char* reason) {
  throw Error(ErrorCode::unsupported, fmt::format("quantize: backend cuda {}", reason));
}

void check_offered(const QuantizeOptions& o) {
  const FormatInfo& format = info(o.format);
  const std::int64_t length = o.axis == BlockAxis::cols ? o.input.cols : o.input.rows;
  if (length % format.block != 0)
    refuse(
        "does not pad the last block; make the length along the block axis a multiple of the "
        "block, or use another backend");
  if (!o.weights.empty()) refuse("takes no importance weights; use another backend");
  if (o.numerics.compat != Compat::none && o.numerics.compat != Compat::ocp)
    refuse("does not follow the profiles of other tools; use another backend");
  if (o.non_finite == NonFinite::refuse)
    refuse("cannot refuse NaN or infinity without waiting for the GPU; choose NonFinite::encode");
  if (format.e8m0_scale) return;
  if (o.global_scale.given() && !o.global_scale.device_pointer())
    throw Error(ErrorCode::invalid_argument,
                "quantize: backend cuda reads NVFP4's global scale from device memory; pass "
                "GlobalScale::on_device(address)");
  if (o.global_scale.given() == (o.computed_global_scale != nullptr))
    throw Error(ErrorCode::invalid_argument,
                "quantize: NVFP4 on backend cuda wants either global_scale, the scale to use, or "
                "computed_global_scale, where to write the one of this tensor");
}

// Where one axis goes.
struct AxisOutput {
  bool wanted = false;
  std::span<std::uint8_t> codes, scales;
};

void add_operands(std::vector<Operand>& operands, const AxisOutput& out, const char* codes,
                  const char* scales) {
  if (!out.wanted) return;
  operands.push_back({codes, out.codes.data(), static_cast<std::int64_t>(out.codes.size()), true});
  operands.push_back(
      {scales, out.scales.data(), static_cast<std::int64_t>(out.scales.size()), true});
}

// The input's magnitude is gathered where the scale will be.
void compute_global_scale(Device& device, const TensorView& in, float* global, Stream stream) {
  const AbsMaxArgs args{.input = in.data,
                        .rows = in.rows,
                        .cols = in.cols,
                        .row_stride = in.row_stride,
                        .amax_bits = reinterpret_cast<std::uint32_t*>(global),
                        .global_scale = global};
  device.set_bytes(global, 0, 4, stream);
  if (in.rows * in.cols > 0)
    launch(device, abs_max_kernel(in.dtype), "quantize",
           abs_max_launch(in.rows, in.cols, device.info().multiprocessors), args, stream);
  launch(device, kernels::global_scale(), "quantize", Launch{1, 1, 1, 1, 0}, args, stream);
}

// All but how the rows are shared out; `global`: NVFP4's.
QuantizeArgs arguments(const TensorView& in, Format format, const Numerics& numerics,
                       std::span<std::uint8_t> codes, std::span<std::uint8_t> scales,
                       const float* global) {
  QuantizeArgs args{};
  args.input = in.data;
  args.rows = in.rows;
  args.cols = in.cols;
  args.row_stride = in.row_stride;
  args.codes = codes.data();
  args.code_stride = code_bytes(info(format), in.cols);
  args.scales = scales.data();
  args.global_scale = info(format).e8m0_scale ? nullptr : global;
  set_numerics(args, format, numerics);
  return args;
}

void quantize_axes(Device& device, const QuantizeOptions& o, const AxisOutput& rows,
                   const AxisOutput& columns, Stream stream) {
  check_offered(o);
  const TensorView& in = o.input;
  const bool two_level = !info(o.format).e8m0_scale,
             computed = two_level && o.computed_global_scale;
  const std::int64_t elements = in.rows * in.cols, element = size_of(in.dtype);
  const float* global = computed ? o.computed_global_scale : o.global_scale.device_pointer();
  std::vector<Operand> operands;
  if (elements > 0) {
    operands.push_back(
        {"the input", in.data, extent_bytes(in.rows, in.cols, in.row_stride, element), false});
    add_operands(operands, rows, "codes", "scales");
    add_operands(operands, columns, rows.wanted ? "column codes" : "codes",
                 rows.wanted ? "column scales" : "scales");
  }
  if (two_level) operands.push_back({"the global scale", global, 4, computed});
  check_operands(device, "quantize", operands);
  check_row_stride("quantize", in.rows, in.row_stride, element);

  QuantizePlan plan;
  if (elements > 0) {  // refuses before anything runs
    const Axes axes = !columns.wanted ? Axes::rows : rows.wanted ? Axes::both : Axes::columns;
    const bool aligned = reinterpret_cast<std::uintptr_t>(rows.scales.data()) % 4 == 0;
    plan = choose(device.info(), o, axes, aligned);
    if (plan.rows) entry_kernel(device, plan.rows->kernel, "quantize");
    if (plan.columns) entry_kernel(device, plan.columns->kernel, "quantize");
  }
  if (computed) compute_global_scale(device, in, o.computed_global_scale, stream);
  if (elements == 0) return;
  QuantizeArgs args = arguments(in, o.format, o.numerics, rows.codes, rows.scales, global);
  args.first_index = o.first_index;
  if (plan.rows) {
    args.tiles = plan.rows->tiles;
    launch(device, plan.rows->kernel, "quantize", plan.rows->grid, args, stream);
  }
  if (plan.columns) {
    args.tiles = {};
    args.tiles.column_shift = plan.columns->grid.column_shift;
    const ColumnsArgs both{args, columns.codes.data(), code_bytes(info(o.format), in.rows),
                           columns.scales.data(), o.layout == Layout::tiled_128x4};
    launch(device, plan.columns->kernel, "quantize", plan.columns->grid, both, stream);
  }
}

}  // namespace

void quantize(Device& device, const QuantizeOptions& o, std::span<std::uint8_t> codes,
              std::span<std::uint8_t> scales, Stream stream) {
  const AxisOutput output{true, codes, scales};
  const bool along_rows = o.axis == BlockAxis::cols;
  quantize_axes(device, o, along_rows ? output : AxisOutput{}, along_rows ? AxisOutput{} : output,
                stream);
}

void quantize_both(Device& device, const QuantizeOptions& o, std::span<std::uint8_t> codes,
                   std::span<std::uint8_t> scales, std::span<std::uint8_t> column_codes,
                   std::span<std::uint8_t> column_scales, Stream stream) {
  if (o.input.rows % info(o.format).block != 0)
    refuse(
        "does not pad the last block of a column; make the rows a multiple of the block, or use "
        "another backend");
  quantize_axes(device, o, {true, codes, scales}, {true, column_codes, column_scales}, stream);
}

void grouped_quantize(Device& device, const GroupedQuantizeOptions& o,
                      std::span<std::uint8_t> codes, std::span<std::uint8_t> scales,
                      Stream stream) {
  constexpr const char* operation = "grouped_quantize";
  const GroupedPlan plan = choose(o, reinterpret_cast<std::uintptr_t>(scales.data()) % 4 == 0);
  const FormatInfo& format = info(o.format);
  const TensorView& in = o.input;
  const std::int64_t element = size_of(in.dtype);
  if (in.rows * in.cols == 0 || o.groups.experts == 0) return;
  const ExpertNumbers numbers = expert_numbers(o.groups);
  std::vector<Operand> operands{
      {"the input", in.data, extent_bytes(in.rows, in.cols, in.row_stride, element), false},
      {"codes", codes.data(), static_cast<std::int64_t>(codes.size()), true},
      {"scales", scales.data(), static_cast<std::int64_t>(scales.size()), true},
      {numbers.name, numbers.data, numbers.bytes, false}};
  if (!format.e8m0_scale)
    operands.push_back(
        {"the global scales", o.global_scale.device_pointer(), o.groups.experts * 4, false});
  check_operands(device, operation, operands);
  check_row_stride(operation, in.rows, in.row_stride, element);

  const grouped::ExpertTable table = expert_table(o.groups, in.rows);
  GroupedQuantizeArgs args{
      arguments(in, o.format, o.numerics, codes, scales, o.global_scale.device_pointer()), {}};
  args.first_index = o.first_index;
  args.tiles = plan.tiles;
  args.experts = {.numbers = table.numbers,
                  .experts = o.groups.experts,
                  .capacity = table.capacity,
                  .wide_numbers = table.wide,
                  .rows_per_unit = plan.rows_per_unit,
                  .tiles_per_unit = plan.tiles_per_unit};
  launch(device, plan.kernel, operation, plan.grid, args, stream);
}

}  // namespace microscale::cuda
