#include "checkpoint/containers/gguf_blocks_k.hpp"

namespace microscale::gguf {
namespace {

using Bytes = const std::uint8_t*;

// The 6-bit scales and minima of Q4_K and Q5_K: eight of each in 12 bytes.
struct ScalesAndMinima {
  std::uint8_t scale[8], minimum[8];

  explicit ScalesAndMinima(Bytes packed) {
    for (int i = 0; i < 4; ++i) {
      scale[i] = packed[i] & 63;
      minimum[i] = packed[4 + i] & 63;
      scale[4 + i] = static_cast<std::uint8_t>((packed[8 + i] & 15) | (packed[i] >> 6) << 4);
      minimum[4 + i] = static_cast<std::uint8_t>((packed[8 + i] >> 4) | (packed[4 + i] >> 6) << 4);
    }
  }
};

}  // namespace

void q2_k(Bytes block, float* out) {
  const float d = load_f16(block + 80), dmin = load_f16(block + 82);
  for (int run = 0; run < 16; ++run) {
    const float step = d * static_cast<float>(block[run] & 15);
    const float minimum = dmin * static_cast<float>(block[run] >> 4);
    Bytes const codes = block + 16 + run / 8 * 32 + run % 2 * 16;
    const int shift = run / 2 % 4 * 2;
    for (int i = 0; i < 16; ++i) {
      out[16 * run + i] = step * static_cast<float>(codes[i] >> shift & 3) - minimum;
    }
  }
}

void q3_k(Bytes block, float* out) {
  const float d = load_f16(block + 108);
  Bytes const scales = block + 96;
  for (int run = 0; run < 16; ++run) {
    const int low = scales[run % 8] >> (run / 8 * 4) & 15;
    const int high = scales[8 + run % 4] >> (run / 4 * 2) & 3;
    const float step = d * static_cast<float>((low | high << 4) - 32);
    Bytes const codes = block + 32 + run / 8 * 32 + run % 2 * 16;
    Bytes const third = block + run % 2 * 16;
    const int shift = run / 2 % 4 * 2, bit = run / 2;
    for (int i = 0; i < 16; ++i) {
      const int code = (codes[i] >> shift & 3) + ((third[i] >> bit & 1) << 2) - 4;
      out[16 * run + i] = step * static_cast<float>(code);
    }
  }
}

void q4_k(Bytes block, float* out) {
  const float d = load_f16(block), dmin = load_f16(block + 2);
  const ScalesAndMinima sub(block + 4);
  for (int run = 0; run < 8; ++run) {
    const float step = d * static_cast<float>(sub.scale[run]);
    const float minimum = dmin * static_cast<float>(sub.minimum[run]);
    Bytes const codes = block + 16 + run / 2 * 32;
    const int shift = run % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      out[32 * run + i] = step * static_cast<float>(codes[i] >> shift & 15) - minimum;
    }
  }
}

void q5_k(Bytes block, float* out) {
  const float d = load_f16(block), dmin = load_f16(block + 2);
  const ScalesAndMinima sub(block + 4);
  Bytes const fifth = block + 16;
  for (int run = 0; run < 8; ++run) {
    const float step = d * static_cast<float>(sub.scale[run]);
    const float minimum = dmin * static_cast<float>(sub.minimum[run]);
    Bytes const codes = block + 48 + run / 2 * 32;
    const int shift = run % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int code = (codes[i] >> shift & 15) | (fifth[i] >> run & 1) << 4;
      out[32 * run + i] = step * static_cast<float>(code) - minimum;
    }
  }
}

void q6_k(Bytes block, float* out) {
  const float d = load_f16(block + 208);
  for (int run = 0; run < 16; ++run) {
    const auto scale = static_cast<std::int8_t>(block[192 + run]);
    const float step = d * static_cast<float>(scale);
    // 128 elements at a time: four quarters of 32; low bits lie in 64 bytes, high ones in 32.
    const int half = run / 8, quarter = run / 2 % 4, begin = run % 2 * 16;
    Bytes const low = block + 64 * half + quarter % 2 * 32 + begin;
    Bytes const high = block + 128 + 32 * half + begin;
    const int low_shift = quarter / 2 * 4, high_shift = quarter * 2;
    for (int i = 0; i < 16; ++i) {
      const int code = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4;
      out[16 * run + i] = step * static_cast<float>(code - 32);
    }
  }
}

}  // namespace microscale::gguf
