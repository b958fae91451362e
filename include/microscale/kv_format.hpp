// What the codes of a key/value cache are.
#pragma once

#include <cstdint>

namespace microscale {

/// One token's K or V of one head: d codes, with scales of blocks along d but for `fp8`.
enum class KvFormat : std::uint8_t {
  nvfp4,  ///< E2M1, one E4M3 scale per 16, one FP32 global scale per cache for K and one for V
  mxfp4,  ///< E2M1, one E8M0 scale per 32
  mxfp8,  ///< E4M3, one E8M0 scale per 32
  fp8,    ///< E4M3, no block scales: one FP32 scale per cache for K and one for V
};

}  // namespace microscale
