// quantize on device memory: along rows, along columns, along both.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cuda/quantize/args.hpp"
#include "cuda/quantize/geometry.hpp"
#include "cuda/quantize/kernel_choice.hpp"
#include "cuda/device/launch.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/quantize/operations.hpp"
#include "microscale/error.hpp"

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

// Row tiles that a thread block goes through, by measurement: one after another costs order in
// DRAM, but what a thread block prepares (addresses; NVFP4: a table) is prepared less often.
int row_tiles_each(Format format, KernelMode mode) {
  if (!info(format).e8m0_scale) return 2;
  return mode == KernelMode::search ? 4 : 1;
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

QuantizeArgs arguments(const QuantizeOptions& o, const AxisOutput& rows, const float* global) {
  const FormatInfo& format = info(o.format);
  const Numerics& n = o.numerics;
  QuantizeArgs args{};
  args.input = o.input.data;
  args.rows = o.input.rows;
  args.cols = o.input.cols;
  args.row_stride = o.input.row_stride;
  args.codes = rows.codes.data();
  args.code_stride = code_bytes(format, o.input.cols);
  args.scales = rows.scales.data();
  args.global_scale = format.e8m0_scale ? nullptr : global;
  set_numerics(args, o.format, n);
  args.first_index = o.first_index;
  return args;
}

bool is_small(const Device& device, const QuantizeOptions& o, KernelMode mode) {
  return mode == KernelMode::plain && o.layout == Layout::row_major &&
         o.input.rows * o.input.cols <=
             small_elements(info(o.format).block, device.info().multiprocessors);
}

void launch_rows(Device& device, const QuantizeOptions& o, KernelMode mode, QuantizeArgs args,
                 Stream stream) {
  const bool tiled = o.layout == Layout::tiled_128x4;
  const int block = info(o.format).block;
  const Entry<QuantizeArgs> kernel = quantize_kernel(o.format, o.input.dtype, mode, o.layout);
  if (mode == KernelMode::general) {
    launch(device, kernel, "quantize", block_launch(args.rows, args.cols, block, tiled), args,
           stream);
    return;
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(args.scales) % 4 == 0;
  if (is_small(device, o, mode)) {
    const TiledLaunch shape = small_launch(args.rows, args.cols, block, aligned);
    args.tiles = shape.tiles;
    launch(device, small_kernel(o.format, o.input.dtype), "quantize", shape.grid, args, stream);
    return;
  }
  const int resident =
      device.info().multiprocessors *
      resident_blocks(mode == KernelMode::search, static_cast<int>(size_of(o.input.dtype)));
  const TiledLaunch shape =
      quantize_launch(args.rows, args.cols, block, tiled, aligned, row_tiles_each(o.format, mode),
                      resident, mode != KernelMode::search);
  args.tiles = shape.tiles;
  launch(device, kernel, "quantize", shape.grid, args, stream);
}

void launch_columns(Device& device, const QuantizeOptions& o, KernelMode mode, bool both,
                    const QuantizeArgs& rows, const AxisOutput& columns, Stream stream) {
  const bool tiled = o.layout == Layout::tiled_128x4;
  const FormatInfo& format = info(o.format);
  ColumnsArgs args{rows, columns.codes.data(), code_bytes(format, rows.rows), columns.scales.data(),
                   tiled};
  const Launch shape = mode == KernelMode::general
                           ? columns_block_launch(rows.rows, rows.cols, format.block, tiled)
                           : columns_launch(rows.rows, rows.cols, size_of(o.input.dtype), tiled);
  args.rows.tiles.column_shift = shape.column_shift;
  launch(device, columns_kernel(o.format, o.input.dtype, mode, both), "quantize", shape, args,
         stream);
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

  const KernelMode mode =
      columns.wanted ? kernel_mode(o.format, o.numerics) : row_kernel_mode(o.format, o.numerics);
  // The general kernels take one axis at a time.
  const bool one_read = rows.wanted && columns.wanted && mode != KernelMode::general;
  const bool separate_rows = rows.wanted && !one_read;
  if (elements > 0) {  // refuses before anything runs
    if (separate_rows)
      entry_kernel(device,
                   is_small(device, o, mode) ? small_kernel(o.format, in.dtype)
                                             : quantize_kernel(o.format, in.dtype, mode, o.layout),
                   "quantize");
    if (columns.wanted)
      entry_kernel(device, columns_kernel(o.format, in.dtype, mode, one_read), "quantize");
  }
  if (computed) compute_global_scale(device, in, o.computed_global_scale, stream);
  if (elements == 0) return;
  const QuantizeArgs args = arguments(o, rows, global);
  if (separate_rows) launch_rows(device, o, mode, args, stream);
  if (columns.wanted) launch_columns(device, o, mode, one_read, args, columns, stream);
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

}  // namespace microscale::cuda
