// MX formats as other tools make them: per tool, the scale byte, the factor between input and
// element, and the element's encoding.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/block_quantizer.hpp"
#include "formats/compat.hpp"
#include "formats/compat_elements.hpp"
#include "formats/rounded_log2.hpp"

namespace microscale {
namespace {

constexpr int block = 32;
constexpr float infinity = std::numeric_limits<float>::infinity();

struct MxScale {
  std::uint8_t byte = 0;
  float multiplier = 0;  // an element is input * multiplier
};

std::uint8_t clamp_byte(int byte, int highest = e8m0_max) {
  return static_cast<std::uint8_t>(byte < 0 ? 0 : byte > highest ? highest : byte);
}

// Exponent of the smallest normal value.
template <class Codec>
constexpr int lowest_exponent = split(Codec::decode(1u << Codec::mantissa_bits)).exponent;

// The power of two at or above a non-negative value, as cvt.rp.satfinite.ue8m0 gives it.
std::uint8_t e8m0_round_up(float value) {
  if (value == 0) return 0;
  if (value == infinity) return e8m0_max;
  const Magnitude m = split(value);
  return clamp_byte(m.exponent + (m.fraction != 0) + 127);
}

// ceil(log2(amax / largest)) in FP32, below at -127.
template <class Codec>
int rceil_by_log2(float amax) {
  const float quotient = amax / Codec::max_value;
  return quotient > 0 ? std::max(ceil_of_rounded_log2(quotient), -127) : -127;
}

// torchao's cast to a type without NaN takes the top bits of one, here of 0x7FC00000 in the middle
// of its normal range.
template <class Codec>
std::uint8_t torchao_nan_code(bool negative) {
  constexpr bool has_nan = Codec::is_nan(Codec::nan_code);
  constexpr unsigned wrapped =
      0x7FC00000u - (static_cast<unsigned>(126 + lowest_exponent<Codec>) << 23) +
      ((1u << (22 - Codec::mantissa_bits)) - 1) + (0x7FC00000u >> (23 - Codec::mantissa_bits) & 1u);
  const unsigned code =
      has_nan ? Codec::nan_code : wrapped >> (23 - Codec::mantissa_bits) & (Codec::sign_bit - 1u);
  return static_cast<std::uint8_t>(code | (negative ? Codec::sign_bit : 0u));
}

// torchao.to_mx. RCEIL poisons a block with a NaN; the other modes divide it by infinity, so that
// only infinities turn into NaN beside the NaN itself.
template <class Codec>
std::uint8_t torchao(ScaleRule rule, const float* values, const BlockRange& range,
                     std::uint8_t* codes) {
  MxScale scale;
  if (rule == ScaleRule::rceil) {
    if (range.has_nan) {
      for (int i = 0; i < block; ++i) codes[i] = torchao_nan_code<Codec>(false);
      return e8m0_nan;
    }
    scale.byte = range.amax == infinity
                     ? e8m0_max
                     : clamp_byte(std::min(rceil_by_log2<Codec>(range.amax), 127) + 127);
    scale.multiplier = scale.byte == 0 ? 1.0f : inverse_e8m0(scale.byte);
  } else {
    auto bits = std::bit_cast<std::uint32_t>(range.amax);
    if (rule == ScaleRule::even) bits = (bits + (1u << (22 - Codec::mantissa_bits))) & 0xFF800000u;
    int field = static_cast<int>(bits >> 23);
    if (rule == ScaleRule::ceil) field += (bits & 0x7FFFFFu) != 0;
    scale.byte = range.has_nan ? e8m0_nan : clamp_byte(field - Codec::emax, e8m0_nan);
    // The scale is never below 2^-126, and 255 reads as infinity.
    scale.multiplier =
        scale.byte == e8m0_nan ? 0.0f : inverse_e8m0(scale.byte == 0 ? 1 : scale.byte);
  }
  for (int i = 0; i < block; ++i) {
    const bool infinite_quotient = scale.byte == e8m0_nan && std::isinf(values[i]);
    if (std::isnan(values[i]) || infinite_quotient)
      codes[i] = torchao_nan_code<Codec>(infinite_quotient || std::signbit(values[i]));
    else
      codes[i] = Codec::encode(values[i] * scale.multiplier, Rounding::nearest_even);
  }
  return scale.byte;
}

// microxcaling: floor(|x| / step + 0.5) in FP32 with the step of x's own exponent.
template <class Codec>
std::uint8_t microxcaling_element(float scaled) {
  float step = 1.0f / 64.0f;  // of INT8
  if constexpr (Codec::sign_bit != 0) {
    constexpr int lowest = lowest_exponent<Codec>;
    const int exponent = scaled == 0 ? lowest : std::max(split(std::fabs(scaled)).exponent, lowest);
    step = power_of_two(exponent - Codec::mantissa_bits);
  }
  const float rounded = std::floor(std::fabs(scaled) / step + 0.5f) * step;
  return Codec::encode(scaled > 0 ? rounded : scaled < 0 ? -rounded : 0.0f, Rounding::nearest_even);
}

template <class Codec>
MxScale microxcaling_scale(float amax) {
  const int shared = (amax == 0 ? -126 : floor_of_rounded_log2(amax)) - Codec::emax;
  if (shared > 127) return {e8m0_nan, 0.0f};
  const std::uint8_t byte = clamp_byte(shared + 127);
  return {byte, inverse_e8m0(byte)};
}

// FlashInfer: the factor is 1 for byte 0 (MXFP4) or 0 (MXFP8, whose reciprocal also flushes
// 2^-127).
MxScale flashinfer_scale(bool mxfp4, float amax) {
  const float quotient = amax * (1.0f / (mxfp4 ? 6.0f : 448.0f));
  const std::uint8_t byte = e8m0_round_up(quotient);
  if (mxfp4) return {byte, quotient == 0 ? 0.0f : byte == 0 ? 1.0f : inverse_e8m0(byte)};
  return {byte, byte == 0 || byte == e8m0_max ? 0.0f : inverse_e8m0(byte)};
}

MxScale vllm_mxfp4_scale(float amax) {
  const auto field = static_cast<int>((std::bit_cast<std::uint32_t>(amax) + (1u << 21)) >> 23);
  const std::uint8_t byte = clamp_byte(field - 2);
  return {byte, byte == 0 ? 0.0f : inverse_e8m0(byte)};
}

MxScale vllm_mxfp8_scale(float amax) {
  const std::uint8_t byte = amax == infinity   ? e8m0_max
                            : amax < 0x1p-126f ? 1
                                               : clamp_byte(floor_of_rounded_log2(amax) + 127);
  return {byte, inverse_e8m0(byte)};
}

template <class Codec>
MxScale scale_of(const ToolBlocks& call, const BlockRange& range) {
  const float amax = range.amax;
  switch (call.numerics.compat) {
    case Compat::transformer_engine: {
      const std::uint8_t byte = e8m0_round_up(amax * (1.0f / Codec::max_value));
      return {byte, inverse_e8m0(byte)};
    }
    case Compat::flashinfer:
      return flashinfer_scale(call.format == Format::mxfp4, amax);
    case Compat::vllm:
      return call.format == Format::mxfp4 ? vllm_mxfp4_scale(amax) : vllm_mxfp8_scale(amax);
    case Compat::modelopt: {
      if (range.has_nan) return {0, inverse_e8m0(0)};  // MXFP8 alone gets here with a NaN
      const std::uint8_t byte =
          amax == infinity ? e8m0_max : clamp_byte(rceil_by_log2<Codec>(amax) + 127);
      return {byte, inverse_e8m0(byte)};
    }
    case Compat::llama_cpp: {
      const std::uint8_t byte = amax == 0 ? 0
                                : amax == infinity
                                    ? e8m0_max
                                    : clamp_byte(floor_of_rounded_log2(amax) - 2 + 127);
      return {byte, 0.5f * decode_e8m0(byte)};
    }
    case Compat::microxcaling:
      return microxcaling_scale<Codec>(amax);
    default:
      break;
  }
  const std::uint8_t byte =
      amax == infinity ? e8m0_max : e8m0_from_amax<Codec>(call.numerics.scale_rule, amax);
  return {byte, inverse_e8m0(byte)};
}

template <class Codec>
std::uint8_t element(const ToolBlocks& call, float value, float multiplier) {
  constexpr bool e2m1 = Codec::code_count == 16;
  if constexpr (e2m1) {
    if (call.numerics.compat == Compat::modelopt) return counted_e2m1(value * multiplier);
    if (call.numerics.compat == Compat::llama_cpp) return least_error_e2m1(value, multiplier);
    if (call.numerics.compat == Compat::compressed_tensors)
      return signed_by_comparison_e2m1(round_to(call.dtype, value * multiplier));
  }
  if (call.numerics.compat == Compat::microxcaling)
    return microxcaling_element<Codec>(value * multiplier);
  const std::uint8_t code = Codec::encode(value * multiplier, Rounding::nearest_even);
  const bool keeps_nan_sign = !e2m1 && call.numerics.compat == Compat::modelopt;
  return keeps_nan_sign && std::isnan(value) && std::signbit(value) ? code | Codec::sign_bit : code;
}

template <class Codec>
std::uint8_t quantize_mx(const ToolBlocks& call, const float* values, std::uint8_t* codes) {
  const BlockRange range = block_range<block>(values);
  const Numerics& n = call.numerics;
  if (n.compat == Compat::torchao) return torchao<Codec>(n.scale_rule, values, range, codes);
  const bool modelopt_mxfp8 = n.compat == Compat::modelopt && call.format == Format::mxfp8_e4m3;
  bool nan_block = range.has_nan && n.nan == NanPolicy::propagate && !modelopt_mxfp8;
  nan_block = nan_block || (range.amax == infinity && n.inf == InfPolicy::nan_block);
  const MxScale scale = nan_block ? MxScale{e8m0_nan, 0.0f} : scale_of<Codec>(call, range);
  for (int i = 0; i < block; ++i)
    codes[i] = scale.byte == e8m0_nan ? Codec::nan_code
                                      : element<Codec>(call, values[i], scale.multiplier);
  return scale.byte;
}

}  // namespace

std::uint8_t detail::quantize_mx_block_as_tool(const ToolBlocks& call, const float* values,
                                               std::uint8_t* codes) {
  switch (call.format) {
    case Format::mxfp4:
      return quantize_mx<E2M1>(call, values, codes);
    case Format::mxfp8_e5m2:
      return quantize_mx<E5M2>(call, values, codes);
    case Format::mxfp6_e2m3:
      return quantize_mx<E2M3>(call, values, codes);
    case Format::mxfp6_e3m2:
      return quantize_mx<E3M2>(call, values, codes);
    case Format::mxint8:
      return quantize_mx<Int8>(call, values, codes);
    default:
      return quantize_mx<E4M3>(call, values, codes);
  }
}

}  // namespace microscale
