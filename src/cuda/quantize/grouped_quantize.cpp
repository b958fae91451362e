// grouped_quantize_into on device memory.
#include <fmt/format.h>

#include <vector>

#include "seam/expert_rows.hpp"
#include "cuda/quantize/args.hpp"
#include "cuda/quantize/geometry.hpp"
#include "cuda/quantize/kernel_choice.hpp"
#include "cuda/device/launch.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/quantize/operations.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

constexpr const char* operation = "grouped_quantize";

KernelMode offered_mode(const GroupedQuantizeOptions& o) {
  const KernelMode mode = kernel_mode(o.format, o.numerics);
  const bool own_profile = o.numerics.compat == Compat::none || o.numerics.compat == Compat::ocp;
  if (mode != KernelMode::general && own_profile) return mode;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("{}: backend cuda offers rounding nearest_even with scale rule search or "
                  "one of a single pass, and no profile of another tool (asked for: {}, "
                  "{}); choose one of these, or call quantize_into per expert",
                  operation, to_string(o.numerics.scale_rule), to_string(o.numerics.rounding)));
}

}  // namespace

void grouped_quantize(Device& device, const GroupedQuantizeOptions& o,
                      std::span<std::uint8_t> codes, std::span<std::uint8_t> scales,
                      Stream stream) {
  const KernelMode mode = offered_mode(o);
  const FormatInfo& format = info(o.format);
  const TensorView& in = o.input;
  const std::int64_t element = size_of(in.dtype);
  if (in.rows * in.cols == 0 || o.groups.experts == 0) return;
  const grouped::ExpertTable table = expert_table(o.groups, in.rows);
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

  GroupedQuantizeArgs args{};
  args.all.input = in.data;
  args.all.rows = in.rows;
  args.all.cols = in.cols;
  args.all.row_stride = in.row_stride;
  args.all.codes = codes.data();
  args.all.code_stride = code_bytes(format, in.cols);
  args.all.scales = scales.data();
  args.all.global_scale = format.e8m0_scale ? nullptr : o.global_scale.device_pointer();
  args.all.first_index = o.first_index;
  set_numerics(args.all, o.format, o.numerics);
  const GroupedLaunch shape = grouped_launch(in.rows, in.cols, o.groups.experts, format.block,
                                             o.layout == Layout::tiled_128x4);
  const int shift = shape.launch.column_shift;
  args.all.tiles.column_shift = shift;
  args.all.tiles.whole_columns = static_cast<std::int32_t>(in.cols / (chunk_elements << shift));
  args.all.tiles.scale_words =
      o.layout == Layout::tiled_128x4 ||
      rows_have_scale_words(in.cols, format.block, shift,
                            reinterpret_cast<std::uintptr_t>(scales.data()) % 4 == 0);
  args.expert_rows = table.numbers;
  args.experts = o.groups.experts;
  args.capacity = table.capacity;
  args.wide_numbers = table.wide;
  args.rows_per_unit = shape.rows_per_unit;
  args.tiles_per_unit = shape.tiles_per_unit;
  launch(device, grouped_kernel(o.format, in.dtype, mode, o.layout), operation, shape.launch, args,
         stream);
}

}  // namespace microscale::cuda
