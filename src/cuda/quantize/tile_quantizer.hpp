// Tiles of a checkpoint quantized on a GPU, from and to host memory.
#pragma once

#include <memory>
#include <string_view>

#include "cuda/device/device.hpp"
#include "seam/tile_quantizer.hpp"

namespace microscale::cuda {

/// With a stream, pinned host buffers and device buffers of its own, allocated here once. `device`
/// must outlive it and becomes the current device of the threads that use it. It takes options for
/// which host_only_reason() is empty. Throws Error: out_of_memory says how much was wanted.
std::unique_ptr<TileQuantizer> make_tile_quantizer(Device& device, const TileBufferSizes& sizes);

/// Why GPUs leave a tile with these options to the host, in words; empty if they take it.
std::string_view host_only_reason(const QuantizeOptions& options);

}  // namespace microscale::cuda
