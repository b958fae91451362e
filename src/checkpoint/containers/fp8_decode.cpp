#include "checkpoint/containers/fp8_decode.hpp"

#include <bit>

#include "formats/arithmetic.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

struct E4M3Code {
  static constexpr std::uint32_t mantissa_bits = 3, bias = 7, first_nan = 0x7F, infinity = 0x100;
};
struct E5M2Code {
  static constexpr std::uint32_t mantissa_bits = 2, bias = 15, first_nan = 0x7D, infinity = 0x7C;
};

constexpr std::uint32_t f32_mantissa_bits = 23, f32_bias = 127;
constexpr std::uint32_t f32_infinity = 0x7F800000;

[[gnu::always_inline]] inline void store(float value, float* to) { *to = value; }
[[gnu::always_inline]] inline void store(float value, std::uint16_t* to) {
  *to = float_to_bf16(value);
}

// All ones where a < b, both below 2^31; what a compiler makes of a comparison is a jump, and the
// loop around it then none of vectors.
[[gnu::always_inline]] inline std::uint32_t is_below(std::uint32_t a, std::uint32_t b) {
  return 0 - ((a - b) >> 31);
}
[[gnu::always_inline]] inline std::uint32_t chosen(std::uint32_t mask, std::uint32_t a,
                                                   std::uint32_t b) {
  return (a & mask) | (b & ~mask);
}

// Exponent and mantissa move to their places in FP32.
template <class Code, class Value>
[[gnu::always_inline]] inline void decode(const std::uint8_t* codes, std::int64_t count,
                                          float factor, Value* out) {
  constexpr std::uint32_t smallest_normal = 1u << Code::mantissa_bits;
  constexpr std::uint32_t rebias = (f32_bias - Code::bias) << f32_mantissa_bits;
  constexpr float step =  // of subnormal codes
      std::bit_cast<float>((f32_bias + 1 - Code::bias - Code::mantissa_bits) << f32_mantissa_bits);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t code = codes[i], magnitude = code & 0x7F;
    const auto small = std::bit_cast<std::uint32_t>(
        static_cast<float>(static_cast<std::int32_t>(magnitude)) * step);
    std::uint32_t bits = (magnitude << (f32_mantissa_bits - Code::mantissa_bits)) + rebias;
    bits = chosen(is_below(magnitude, smallest_normal), small, bits);
    bits = chosen(is_below(magnitude ^ Code::infinity, 1), f32_infinity, bits);
    bits |= (code & 0x80) << 24;
    bits = chosen(is_below(magnitude, Code::first_nan), bits, canonical_nan_f32);
    store(std::bit_cast<float>(bits) * factor, out + i);
  }
}

template <class Code, class Value>
void portable(const std::uint8_t* codes, std::int64_t count, float factor, Value* out) {
  decode<Code>(codes, count, factor, out);
}

#if defined(__x86_64__)
template <class Code, class Value>
[[gnu::target("avx2")]] void avx2(const std::uint8_t* codes, std::int64_t count, float factor,
                                  Value* out) {
  decode<Code>(codes, count, factor, out);
}

template <class Code, class Value>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]] void avx512(
    const std::uint8_t* codes, std::int64_t count, float factor, Value* out) {
  decode<Code>(codes, count, factor, out);
}
#endif

template <class Code>
std::vector<DecodeFp8> decoders() {
  std::vector<DecodeFp8> present{{portable<Code, float>, portable<Code, std::uint16_t>}};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) {
    present.push_back({avx2<Code, float>, avx2<Code, std::uint16_t>});
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    present.push_back({avx512<Code, float>, avx512<Code, std::uint16_t>});
  }
#endif
  return present;
}

}  // namespace

std::vector<DecodeFp8> fp8_decoders(StoredType codes) {
  return codes == StoredType::f8_e4m3 ? decoders<E4M3Code>() : decoders<E5M2Code>();
}

}  // namespace microscale
