// Where the tiles of a conversion are quantized: the seam between the converter, which reads,
// checks and writes, and a processor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "microscale/checkpoint.hpp"
#include "microscale/quantize.hpp"

namespace microscale {

/// Sizes in bytes of the host buffers that one worker needs.
struct TileBufferSizes {
  std::int64_t input = 0, codes = 0, scales = 0;
};

struct TileBuffers {
  std::span<std::uint8_t> input, codes, scales;
};

/// Quantizes one tile at a time; each worker has its own. The bytes are the same whatever it is.
class TileQuantizer {
 public:
  virtual ~TileQuantizer() = default;

  /// Host memory that tiles go through fastest, of the sizes asked for; lives as long as this.
  virtual TileBuffers buffers() = 0;

  /// As quantize_into on the host with one thread; done when it returns. `options` is about host
  /// memory, row-major, blocks along the columns; NVFP4 comes with tensor_amax. From any thread,
  /// one at a time. Throws Error.
  virtual float quantize(const QuantizeOptions& options, std::span<std::uint8_t> codes,
                         std::span<std::uint8_t> scales) = 0;
};

/// The quantizer of worker 0, 1, ...
using TileQuantizerFactory =
    std::function<std::unique_ptr<TileQuantizer>(int worker, const TileBufferSizes& sizes)>;

std::unique_ptr<TileQuantizer> make_host_quantizer(const TileBufferSizes& sizes);

/// Of the processors that options.gpus names, workers going round them; GPUs are ready for work
/// when this returns. Throws Error: unsupported without a GPU that kernels are built for,
/// invalid_argument for a number that no GPU has.
TileQuantizerFactory open_quantizers(const QuantizeModelOptions& options);

/// In words, where open_quantizers' will compute: "the CPU", "GPU 0 (NVIDIA H200, sm_90a)", with
/// what falls back to the CPU and why. Throws as open_quantizers does.
std::string computed_on(const QuantizeModelOptions& options);

}  // namespace microscale
