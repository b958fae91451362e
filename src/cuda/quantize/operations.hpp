// Operations on device memory: check, fill the kernel's arguments, launch. No arithmetic here.
// Each is ordered by `stream`, allocates nothing and waits for nothing once its kernels are loaded.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/device/device.hpp"
#include "microscale/fused.hpp"
#include "microscale/grouped.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {

/// Along options.axis. `options` as quantize_into has checked them (sizes, rule); the rest is
/// checked here. Throws Error.
void quantize(Device& device, const QuantizeOptions& options, std::span<std::uint8_t> codes,
              std::span<std::uint8_t> scales, Stream stream);

/// Along both axes; options.axis is BlockAxis::cols, both lengths are multiples of the block.
void quantize_both(Device& device, const QuantizeOptions& options, std::span<std::uint8_t> codes,
                   std::span<std::uint8_t> scales, std::span<std::uint8_t> column_codes,
                   std::span<std::uint8_t> column_scales, Stream stream);

void dequantize(Device& device, const BlockTensorView& input, const MutableTensorView& output,
                Stream stream);

/// The scales of `input` in `layout`. Throws Error.
void repack_scales(Device& device, const BlockTensorView& input, Layout layout,
                   std::span<std::uint8_t> scales, Stream stream);

/// `code_bytes` packed bytes to twice as many containers, or back.
void repack_containers(Device& device, const std::uint8_t* input, std::uint8_t* output,
                       std::int64_t code_bytes, bool to_containers, Stream stream);

/// `options` as grouped_quantize_into has checked them; the rest is checked here. Throws Error.
void grouped_quantize(Device& device, const GroupedQuantizeOptions& options,
                      std::span<std::uint8_t> codes, std::span<std::uint8_t> scales, Stream stream);
/// As the *_quantize_into functions have checked them. Throw Error.
void silu_mul_quantize(Device& device, const SiluMulOptions& options, Stream stream);
void rms_norm_quantize(Device& device, const RmsNormOptions& options, Stream stream);
void hadamard_quantize(Device& device, const HadamardOptions& options, Stream stream);

}  // namespace microscale::cuda
