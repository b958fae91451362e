// Operations on device memory: check, fill the kernel's arguments, launch. No arithmetic here.
// Each is ordered by `stream`, allocates nothing and waits for nothing once its kernels are loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "cuda/device/device.hpp"
#include "microscale/fused.hpp"
#include "microscale/grouped.hpp"
#include "microscale/kv_cache.hpp"
#include "microscale/quantize.hpp"
#include "seam/tile_quantizer.hpp"

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

/// With a stream, pinned host buffers and device buffers of its own, allocated here once. `device`
/// must outlive it and becomes the current device of the threads that use it. It takes options for
/// which host_only_reason() is empty. Throws Error: out_of_memory says how much was wanted.
std::unique_ptr<TileQuantizer> make_tile_quantizer(Device& device, const TileBufferSizes& sizes);

/// Why GPUs leave a tile with these options to the host, in words; empty if they take it.
std::string_view host_only_reason(const QuantizeOptions& options);

/// `options` as append_kv has checked them; whether memory is the device's is checked here. K and V
/// are written by one launch, or by one each where different kernels serve them. Ordered by
/// `stream`; allocates and waits for nothing. Throws Error.
void append_kv(Device& device, const AppendKvOptions& options, Stream stream);

}  // namespace microscale::cuda
