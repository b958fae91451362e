// Tiles quantized on a GPU, from and to host memory; what the GPU does not offer, on the host.
#pragma once

#include <memory>
#include <string_view>

#include "checkpoint/tile_quantizer.hpp"
#include "cuda/device/device.hpp"

namespace microscale {

/// With a stream, pinned host buffers and device buffers of its own, allocated here once. `device`
/// must outlive it and becomes the current device of the threads that use it. Throws Error:
/// out_of_memory says how much was wanted.
std::unique_ptr<TileQuantizer> make_device_quantizer(cuda::Device& device,
                                                     const TileBufferSizes& sizes);

/// Why a GPU leaves a tile with these options to the host, in words; empty if it takes it.
std::string_view host_only_reason(const QuantizeOptions& options);

}  // namespace microscale
