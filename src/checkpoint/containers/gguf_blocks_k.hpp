// Decoders of the K types: a super-block of 256 elements, in runs of 16 or 32 with scales of 4 to 8
// bits that are themselves multiples of the super-block's. Each reads one block and writes 256
// floats.
#pragma once

#include <cstdint>
#include <cstring>

#include "formats/half.hpp"

namespace microscale::gguf {

inline float load_f16(const std::uint8_t* at) {
  return f16_to_float(static_cast<std::uint16_t>(at[0] | at[1] << 8));
}

/// scales (16), codes (64), d, dmin: value = d * scale * code - dmin * minimum.
void q2_k(const std::uint8_t* block, float* out);
/// third bits (32), codes (64), scales (12), d: value = d * (scale - 32) * (code - 4 where its
/// third bit is 0).
void q3_k(const std::uint8_t* block, float* out);
/// d, dmin, scales (12), codes (128): value = d * scale * code - dmin * minimum.
void q4_k(const std::uint8_t* block, float* out);
/// d, dmin, scales (12), fifth bits (32), codes (128).
void q5_k(const std::uint8_t* block, float* out);
/// low bits (128), high bits (64), scales (16), d: value = d * scale * (code - 32).
void q6_k(const std::uint8_t* block, float* out);

}  // namespace microscale::gguf
