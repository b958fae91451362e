// quantize on device memory.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cuda/args.hpp"
#include "cuda/kernel_choice.hpp"
#include "cuda/launch.hpp"
#include "cuda/operands.hpp"
#include "cuda/operations.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

[[noreturn]] void refuse(const char* reason) {
  throw Error(ErrorCode::unsupported, fmt::format("quantize: backend cuda {}", reason));
}

void check_offered(const QuantizeOptions& o) {
  const FormatInfo& format = info(o.format);
  if (o.axis != BlockAxis::cols)
    refuse("has blocks along the rows of a matrix only; transpose the input");
  if (o.input.cols % format.block != 0)
    refuse(
        "does not pad the last block; make the columns a multiple of the block, or use another "
        "backend");
  if (!o.weights.empty()) refuse("takes no importance weights; use another backend");
  if (o.numerics.compat != Compat::none && o.numerics.compat != Compat::ocp)
    refuse("does not follow the profiles of other tools; use another backend");
  if (o.non_finite == NonFinite::refuse)
    refuse("cannot refuse NaN or infinity without waiting for the GPU; choose NonFinite::encode");
  if (format.e8m0_scale) return;
  if (o.global_scale)
    throw Error(ErrorCode::invalid_argument,
                "quantize: backend cuda reads NVFP4's global scale from device "
                "memory; pass it as device_global_scale");
  if ((o.device_global_scale != nullptr) == (o.computed_global_scale != nullptr))
    throw Error(
        ErrorCode::invalid_argument,
        "quantize: NVFP4 on backend cuda wants either device_global_scale, the scale to use, or "
        "computed_global_scale, where to write the one of this tensor");
}

}  // namespace

void quantize(Device& device, const QuantizeOptions& o, std::span<std::uint8_t> codes,
              std::span<std::uint8_t> scales, Stream stream) {
  check_offered(o);
  const FormatInfo& format = info(o.format);
  const TensorView& in = o.input;
  const bool two_level = !format.e8m0_scale, computed = two_level && o.computed_global_scale;
  const std::int64_t elements = in.rows * in.cols, element = size_of(in.dtype);
  const float* global = computed ? o.computed_global_scale : o.device_global_scale;
  std::vector<Operand> operands;
  if (elements > 0)
    operands = {
        {"the input", in.data, extent_bytes(in.rows, in.cols, in.row_stride, element), false},
        {"codes", codes.data(), static_cast<std::int64_t>(codes.size()), true},
        {"scales", scales.data(), static_cast<std::int64_t>(scales.size()), true}};
  if (two_level) operands.push_back({"the global scale", global, 4, computed});
  check_operands(device, "quantize", operands);
  check_row_stride("quantize", in.rows, in.row_stride, element);

  const Numerics& n = o.numerics;
  const KernelMode mode = kernel_mode(o.format, n);
  const std::string kernel = quantize_kernel(o.format, in.dtype, mode, o.layout);
  if (elements > 0) load_kernel(device, kernel, "quantize");  // refuses before anything runs
  if (computed) {                           // the magnitude is gathered where the scale will be
    const AbsMaxArgs args{.input = in.data,
                          .rows = in.rows,
                          .cols = in.cols,
                          .row_stride = in.row_stride,
                          .amax_bits = reinterpret_cast<std::uint32_t*>(o.computed_global_scale),
                          .global_scale = o.computed_global_scale};
    device.set_bytes(o.computed_global_scale, 0, 4, stream);
    if (elements > 0)
      launch(device, abs_max_kernel(in.dtype), "quantize",
             abs_max_launch(in.rows, in.cols, device.info().multiprocessors), args, stream);
    launch(device, "global_scale", "quantize", Launch{1, 1, 1, 1, 0}, args, stream);
  }
  if (elements == 0) return;
  QuantizeArgs args{};
  args.input = in.data;
  args.rows = in.rows;
  args.cols = in.cols;
  args.row_stride = in.row_stride;
  args.codes = codes.data();
  args.code_stride = code_bytes(format, in.cols);
  args.scales = scales.data();
  args.global_scale = two_level ? global : nullptr;
  set_numerics(args, o.format, n);
  args.first_index = o.first_index;
  const bool tiled = o.layout == Layout::tiled_128x4;
  const Launch shape = mode == KernelMode::general
                           ? block_launch(in.rows, in.cols, format.block, tiled)
                           : quantize_launch(in.rows, in.cols, format.block, tiled);
  args.column_shift = shape.column_shift;
  launch(device, kernel, "quantize", shape, args, stream);
}

}  // namespace microscale::cuda
