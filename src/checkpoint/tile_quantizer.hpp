// Where the tiles of a conversion are quantized: on the CPU, or on GPUs with the CPU for what they
// do not offer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "microscale/checkpoint.hpp"
#include "seam/tile_quantizer.hpp"

namespace microscale {

/// The quantizer of worker 0, 1, ...
using TileQuantizerFactory =
    std::function<std::unique_ptr<TileQuantizer>(int worker, const TileBufferSizes& sizes)>;

std::unique_ptr<TileQuantizer> make_host_quantizer(const TileBufferSizes& sizes);

/// `on_gpu` for the tiles it takes; the others, of whose options `host_only_reason` says something,
/// on the CPU, from and to on_gpu's buffers.
std::unique_ptr<TileQuantizer> with_host_for_the_rest(
    std::unique_ptr<TileQuantizer> on_gpu,
    std::string_view (*host_only_reason)(const QuantizeOptions&));

/// Of the processors that options.gpus names, workers going round them; GPUs are ready for work
/// when this returns. Throws Error: unsupported without a GPU that kernels are built for,
/// invalid_argument for a number that no GPU has.
TileQuantizerFactory open_quantizers(const QuantizeModelOptions& options);

/// In words, where open_quantizers' will compute: "the CPU", "GPU 0 (NVIDIA H200, sm_90a)", with
/// what falls back to the CPU and why. Throws as open_quantizers does.
std::string computed_on(const QuantizeModelOptions& options);

}  // namespace microscale
