// Operations on device memory: check, fill the kernel's arguments, launch. No arithmetic here.
// Each is ordered by `stream`, allocates nothing and waits for nothing once its kernels are loaded.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/device.hpp"
#include "microscale/fused.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {

/// `options` as quantize_into has checked them (sizes, rule); the rest is checked here. Throws
/// Error.
void quantize(Device& device, const QuantizeOptions& options, std::span<std::uint8_t> codes,
              std::span<std::uint8_t> scales, Stream stream);

void dequantize(Device& device, const BlockTensorView& input, const MutableTensorView& output,
                Stream stream);

/// The scales of `input` in `layout`. Throws Error.
void repack_scales(Device& device, const BlockTensorView& input, Layout layout,
                   std::span<std::uint8_t> scales, Stream stream);

/// As the *_quantize_into functions have checked them. Throw Error.
void silu_mul_quantize(Device& device, const SiluMulOptions& options, Stream stream);
void rms_norm_quantize(Device& device, const RmsNormOptions& options, Stream stream);
void hadamard_quantize(Device& device, const HadamardOptions& options, Stream stream);

}  // namespace microscale::cuda
