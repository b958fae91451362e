#include "checkpoint/containers/gguf_blocks.hpp"

#include <cstddef>
#include <bit>
#include <cstring>

#include "checkpoint/containers/gguf_blocks_k.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

using gguf::load_f16;
using Bytes = const std::uint8_t*;

// Twice the E2M1 values, which are integers, and the table of the IQ4 types.
constexpr std::int8_t fp4_steps[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr std::int8_t iq4_steps[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};

// Low nibbles are the first half of a run of 2 * half elements, high ones the second.
template <int half, class Value>
void decode_nibbles(Bytes codes, float* out, Value value) {
  for (int i = 0; i < half; ++i) out[i] = value(codes[i] & 15);
  for (int i = 0; i < half; ++i) out[half + i] = value(codes[i] >> 4);
}

void q4_0(Bytes block, float* out) {
  const float d = load_f16(block);
  decode_nibbles<16>(block + 2, out, [d](int q) { return d * static_cast<float>(q - 8); });
}

void q4_1(Bytes block, float* out) {
  const float d = load_f16(block), m = load_f16(block + 2);
  decode_nibbles<16>(block + 4, out, [d, m](int q) { return d * static_cast<float>(q) + m; });
}

// The codes of Q5_0 and Q5_1: four bits, and the fifth of element i in bit i of `high`.
template <class Value>
void decode_five_bits(Bytes high, Bytes codes, float* out, Value value) {
  std::uint32_t fifth;
  std::memcpy(&fifth, high, 4);
  for (int i = 0; i < 16; ++i) {
    out[i] = value((codes[i] & 15) | static_cast<int>(fifth >> i & 1) << 4);
    out[16 + i] = value((codes[i] >> 4) | static_cast<int>(fifth >> (16 + i) & 1) << 4);
  }
}

void q5_0(Bytes block, float* out) {
  const float d = load_f16(block);
  decode_five_bits(block + 2, block + 6, out,
                   [d](int q) { return d * static_cast<float>(q - 16); });
}

void q5_1(Bytes block, float* out) {
  const float d = load_f16(block), m = load_f16(block + 2);
  decode_five_bits(block + 4, block + 8, out,
                   [d, m](int q) { return d * static_cast<float>(q) + m; });
}

// Signed bytes times d.
template <int count>
void decode_bytes(float d, Bytes codes, float* out) {
  for (int i = 0; i < count; ++i) {
    out[i] = d * static_cast<float>(static_cast<std::int8_t>(codes[i]));
  }
}

void q8_0(Bytes block, float* out) { decode_bytes<32>(load_f16(block), block + 2, out); }

void q8_k(Bytes block, float* out) {
  float d;
  std::memcpy(&d, block, 4);
  decode_bytes<256>(d, block + 4, out);
}

void iq4_nl(Bytes block, float* out) {
  const float d = load_f16(block);
  decode_nibbles<16>(block + 2, out, [d](int q) { return d * static_cast<float>(iq4_steps[q]); });
}

void iq4_xs(Bytes block, float* out) {
  const float d = load_f16(block);
  const int high = block[2] | block[3] << 8;
  for (int run = 0; run < 8; ++run) {
    const int low = block[4 + run / 2] >> (run % 2 * 4) & 15;
    const int scale = (low | (high >> (2 * run) & 3) << 4) - 32;
    const float step = d * static_cast<float>(scale);
    decode_nibbles<16>(block + 8 + 16 * run, out + 32 * run,
                       [step](int q) { return step * static_cast<float>(iq4_steps[q]); });
  }
}

// Half of E8M0's value, since the steps are twice E2M1's. 0xFF counts on, to 2^127.
void mxfp4(Bytes block, float* out) {
  const std::uint32_t e = block[0];
  const float d = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  decode_nibbles<16>(block + 1, out, [d](int q) { return d * static_cast<float>(fp4_steps[q]); });
}

// Half of the value of an E4M3 byte without sign; 0x7F is 0.
float half_ue4m3(std::uint8_t byte) {
  if (byte == 0x7F) return 0.0f;
  const int exponent = byte >> 3 & 15, mantissa = byte & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 119) << 23 |
                              static_cast<std::uint32_t>(mantissa) << 20);
}

void nvfp4(Bytes block, float* out) {
  for (int run = 0; run < 4; ++run) {
    const float d = half_ue4m3(block[run]);
    decode_nibbles<8>(block + 4 + 8 * run, out + 16 * run,
                      [d](int q) { return d * static_cast<float>(fp4_steps[q]); });
  }
}

template <void decode(Bytes, float*)>
void decode_all(const GgufTypeInfo& type, std::span<const std::uint8_t> blocks, float* out) {
  for (Bytes at = blocks.data(); at != blocks.data() + blocks.size(); at += type.bytes) {
    decode(at, out);
    out += type.block;
  }
}

void f16(Bytes element, float* out) { *out = load_f16(element); }
void bf16(Bytes element, float* out) {
  *out = bf16_to_float(static_cast<std::uint16_t>(element[0] | element[1] << 8));
}

}  // namespace

void decode_gguf_blocks(GgufType type, std::span<const std::uint8_t> blocks,
                        std::span<float> values) {
  const GgufTypeInfo& facts = info(type);
  float* const out = values.data();
  switch (type) {
    case GgufType::f32:
      if (!blocks.empty()) std::memcpy(out, blocks.data(), blocks.size());
      return;
    case GgufType::f16:
      return decode_all<f16>(facts, blocks, out);
    case GgufType::bf16:
      return decode_all<bf16>(facts, blocks, out);
    case GgufType::q4_0:
      return decode_all<q4_0>(facts, blocks, out);
    case GgufType::q4_1:
      return decode_all<q4_1>(facts, blocks, out);
    case GgufType::q5_0:
      return decode_all<q5_0>(facts, blocks, out);
    case GgufType::q5_1:
      return decode_all<q5_1>(facts, blocks, out);
    case GgufType::q8_0:
      return decode_all<q8_0>(facts, blocks, out);
    case GgufType::q2_k:
      return decode_all<gguf::q2_k>(facts, blocks, out);
    case GgufType::q3_k:
      return decode_all<gguf::q3_k>(facts, blocks, out);
    case GgufType::q4_k:
      return decode_all<gguf::q4_k>(facts, blocks, out);
    case GgufType::q5_k:
      return decode_all<gguf::q5_k>(facts, blocks, out);
    case GgufType::q6_k:
      return decode_all<gguf::q6_k>(facts, blocks, out);
    case GgufType::q8_k:
      return decode_all<q8_k>(facts, blocks, out);
    case GgufType::iq4_nl:
      return decode_all<iq4_nl>(facts, blocks, out);
    case GgufType::iq4_xs:
      return decode_all<iq4_xs>(facts, blocks, out);
    case GgufType::mxfp4:
      return decode_all<mxfp4>(facts, blocks, out);
    case GgufType::nvfp4:
      return decode_all<nvfp4>(facts, blocks, out);
    default:
      return;  // without a decoder, and never asked for
  }
}

}  // namespace microscale
