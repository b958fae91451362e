// What the converter asks of a processor that quantizes the tiles of a checkpoint.
#pragma once

#include <cstdint>
#include <span>

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

}  // namespace microscale
