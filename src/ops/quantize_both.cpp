// quantize along both axes. On the host two passes, which share the NVFP4 global scale.

#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "ops/check.hpp"
#include "ops/operand_memory.hpp"
#include "ops/quantize_check.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

void check_output(const QuantizeOptions& o, BlockAxis axis, bool on_device,
                  std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales) {
  const BlockShape shape{o.input.rows, o.input.cols, o.format, axis, o.layout};
  check_quantize_options(o, shape, on_device);
  const bool columns = axis == BlockAxis::rows;
  check_bytes("quantize_both", columns ? "column codes" : "codes",
              static_cast<std::int64_t>(codes.size()), shape.code_bytes());
  check_bytes("quantize_both", columns ? "column scales" : "scales",
              static_cast<std::int64_t>(scales.size()), shape.scale_bytes());
}

}  // namespace

GlobalScale quantize_both_into(const QuantizeOptions& given, std::span<std::uint8_t> codes,
                               std::span<std::uint8_t> scales, std::span<std::uint8_t> column_codes,
                               std::span<std::uint8_t> column_scales, const Context& context) {
  QuantizeOptions options = given;
  options.input = with_row_stride(given.input);
  if (options.axis != BlockAxis::cols)
    throw Error(ErrorCode::invalid_argument,
                "quantize_both: axis is BlockAxis::rows, but both axes are written; leave it at "
                "BlockAxis::cols");
  if (!options.weights.empty())
    throw Error(ErrorCode::invalid_argument,
                "quantize_both: importance weights belong to one axis; call quantize_into for "
                "each axis with its own");
  const bool on_device =
      runs_on_device("quantize_both", context,
                     {operand("the input", options.input),
                      {"the output",
                       options.input.memory,
                       {codes.data(), scales.data(), column_codes.data(), column_scales.data()}}});
  check_output(options, BlockAxis::cols, on_device, codes, scales);
  check_output(options, BlockAxis::rows, on_device, column_codes, column_scales);
  if (on_device) {
    gpu_operations("quantize_both")
        .quantize_both(options, codes, scales, column_codes, column_scales, context.stream);
    return device_global_scale(options);
  }
  QuantizeOptions pass = options;
  if (pass.format == Format::nvfp4 && !pass.global_scale.given() && !pass.tensor_amax &&
      pass.non_finite == NonFinite::encode)
    pass.tensor_amax = abs_max(pass.input, context).amax;
  const GlobalScale global_scale = quantize_into(pass, codes, scales, context);
  pass.axis = BlockAxis::rows;
  pass.non_finite = NonFinite::encode;  // the first pass has looked
  quantize_into(pass, column_codes, column_scales, context);
  return global_scale;
}

}  // namespace microscale
