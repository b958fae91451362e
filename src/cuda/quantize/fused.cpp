// The fused operations on device memory.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/operations.hpp"
#include "cuda/quantize/choose.hpp"
#include "cuda/quantize/fused_args.hpp"
#include "cuda/quantize/args.hpp"
#include "formats/producers.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

Operand operand_of(const char* what, const void* data, const TensorView& m, bool written) {
  return {what, data, extent_bytes(m.rows, m.cols, m.row_stride, size_of(m.dtype)), written};
}

// Everything but the producer's own fields. `operands` are the dense ones.
FusedArgs common_args(Device& device, const char* operation, const QuantizedOutput& o,
                      const TensorView& input, std::vector<Operand> operands) {
  const FormatInfo& format = info(o.format);
  if (o.numerics.compat != Compat::none && o.numerics.compat != Compat::ocp)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: backend cuda does not follow the profiles of other tools; use another "
                    "backend",
                    operation));
  if (kernel_mode(o.format, o.numerics) == KernelMode::general)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: backend cuda has no kernel for rule {} with rounding {}; make the matrix "
                    "and call quantize_into, or use another backend",
                    operation, to_string(o.numerics.scale_rule), to_string(o.numerics.rounding)));
  if (!format.e8m0_scale && !o.global_scale.device_pointer())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: backend cuda reads NVFP4's global scale from device memory; pass "
                            "GlobalScale::on_device(address)",
                            operation));
  operands.push_back({"codes", o.codes.data(), static_cast<std::int64_t>(o.codes.size()), true});
  operands.push_back({"scales", o.scales.data(), static_cast<std::int64_t>(o.scales.size()), true});
  if (!format.e8m0_scale)
    operands.push_back({"the global scale", o.global_scale.device_pointer(), 4, false});
  check_operands(device, operation, operands);
  check_row_stride(operation, input.rows, input.row_stride, size_of(input.dtype));
  FusedArgs args{};
  args.quantize.input = input.data;
  args.quantize.rows = input.rows;
  args.quantize.cols = input.cols;
  args.quantize.row_stride = input.row_stride;
  args.quantize.codes = o.codes.data();
  args.quantize.code_stride = code_bytes(format, input.cols);
  args.quantize.scales = o.scales.data();
  args.quantize.global_scale = format.e8m0_scale ? nullptr : o.global_scale.device_pointer();
  set_numerics(args.quantize, o.format, o.numerics);
  args.tiled = o.layout == Layout::tiled_128x4;
  return args;
}

void launch_fused(Device& device, const char* producer, const char* operation,
                  const QuantizedOutput& o, DType dtype, const FusedLaunch& shape, int shared_bytes,
                  FusedArgs& args, Stream stream) {
  args.row_threads = shape.row_threads;
  args.column_pieces = shape.column_pieces;
  args.row_step = shape.row_step;
  args.turns = shape.turns;
  args.whole = shape.whole;
  args.input_step = shape.row_step * args.quantize.row_stride * size_of(dtype);
  args.second_step = shape.row_step * args.second_stride * size_of(dtype);
  args.code_step = shape.row_step * args.quantize.code_stride;
  args.scale_step = shape.row_step * (args.quantize.cols / info(o.format).block);
  launch(device, fused_kernel(producer, o.format, dtype, kernel_mode(o.format, o.numerics)),
         operation, shape.launch, args, stream, shared_bytes);
}

FusedLaunch lane_launch_of(Device& device, const QuantizedOutput& o, const TensorView& input) {
  return lane_launch(input.rows, input.cols, info(o.format).block, o.layout == Layout::tiled_128x4,
                     static_cast<int>(size_of(input.dtype)), device.info().multiprocessors);
}

bool is_empty(const TensorView& m) { return m.rows == 0 || m.cols == 0; }

}  // namespace

void silu_mul_quantize(Device& device, const SiluMulOptions& o, Stream stream) {
  constexpr const char* operation = "silu_mul_quantize";
  if (is_empty(o.gate)) return;
  FusedArgs args = common_args(device, operation, o.output, o.gate,
                               {operand_of("the gate", o.gate.data, o.gate, false),
                                operand_of("up", o.up.data, o.up, false)});
  check_row_stride(operation, o.up.rows, o.up.row_stride, size_of(o.up.dtype));
  args.second = o.up.data;
  args.second_stride = o.up.row_stride;
  launch_fused(device, "silu_mul", operation, o.output, o.gate.dtype,
               lane_launch_of(device, o.output, o.gate), 0, args, stream);
}

void rms_norm_quantize(Device& device, const RmsNormOptions& o, Stream stream) {
  constexpr const char* operation = "rms_norm_quantize";
  if (is_empty(o.input)) return;
  const std::int64_t element = size_of(o.input.dtype);
  std::vector<Operand> operands{operand_of("the input", o.input.data, o.input, false)};
  if (o.weight) operands.push_back({"the weight", o.weight, o.input.cols * element, false});
  if (o.residual.data) {
    TensorView sum = o.residual;
    sum.row_stride = o.sum.row_stride;
    operands.push_back(operand_of("the sum", o.sum.data, sum, true));
    if (o.sum.data != o.residual.data)
      operands.push_back(operand_of("the residual", o.residual.data, o.residual, false));
    check_row_stride(operation, o.input.rows, o.sum.row_stride, element);
    check_row_stride(operation, o.input.rows, o.residual.row_stride, element);
  }
  FusedArgs args = common_args(device, operation, o.output, o.input, std::move(operands));
  args.second = o.residual.data;
  args.second_stride = o.residual.row_stride;
  args.sum = o.sum.data;
  args.sum_stride = o.sum.row_stride;
  args.weight = o.weight;
  args.epsilon = o.epsilon;
  const bool residual = o.residual.data != nullptr;
  const FormatInfo& format = info(o.output.format);
  const FusedLaunch shape =
      row_launch(o.input.rows, o.input.cols, format.block, args.tiled != 0, format.code_bits,
                 static_cast<int>(element), residual, device.info().multiprocessors);
  launch_fused(device, residual ? "add_rms_norm" : "rms_norm", operation, o.output, o.input.dtype,
               shape,
               static_cast<int>(shape.launch.threads) / 32 *
                   row_stage_bytes(static_cast<int>(element), residual, format.code_bits),
               args, stream);
}

void hadamard_quantize(Device& device, const HadamardOptions& o, Stream stream) {
  constexpr const char* operation = "hadamard_quantize";
  if (is_empty(o.input)) return;
  FusedArgs args = common_args(device, operation, o.output, o.input,
                               {operand_of("the input", o.input.data, o.input, false)});
  args.order = o.order;
  args.scale = hadamard_scale(o.order);
  for (std::size_t i = 0; i < 4; ++i)
    if (static_cast<int>(i) * 32 < o.order) args.negated[i] = o.negated[i];
  if (o.order == 16) args.negated[0] &= 0xFFFFu;
  launch_fused(device, "hadamard", operation, o.output, o.input.dtype,
               lane_launch_of(device, o.output, o.input), 0, args, stream);
}

}  // namespace microscale::cuda
