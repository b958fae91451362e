// The element types by name, each a codec with the same members, and `with_codec` to choose one at
// run time.
//   decode(code) -> float, encode(value, rounding, random16) -> code, max_code, nan_code,
//   code_count, sign_bit (0 if the code is no sign and magnitude), is_nan(code), mantissa_bits,
//   max_value, emax.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "formats/minifloat.hpp"
#include "microscale/format.hpp"

namespace microscale {

/// {0, 0.5, 1, 1.5, 2, 3, 4, 6} and negatives.
struct E2M1 : Minifloat<2, 1, 1, Specials::none> {
  static constexpr float max_value = 6.0f;
  static constexpr int emax = 2;
};
/// OCP "fn": no infinity, S.1111.111 is NaN.
struct E4M3 : Minifloat<4, 3, 7, Specials::nan_only> {
  static constexpr float max_value = 448.0f;
  static constexpr int emax = 8;
};
struct E5M2 : Minifloat<5, 2, 15, Specials::ieee> {
  static constexpr float max_value = 57344.0f;
  static constexpr int emax = 15;
};
struct E2M3 : Minifloat<2, 3, 1, Specials::none> {
  static constexpr float max_value = 7.5f;
  static constexpr int emax = 2;
};
struct E3M2 : Minifloat<3, 2, 3, Specials::none> {
  static constexpr float max_value = 28.0f;
  static constexpr int emax = 4;
};
/// Powers of two 0.25 to 16 and zero; to compare with, no format uses it.
struct E3M0 : Minifloat<3, 0, 3, Specials::none> {
  static constexpr float max_value = 16.0f;
  static constexpr int emax = 4;
};
/// NVFP4's block scale: E4M3 without a sign, 0x7F is NaN.
struct UE4M3 : Minifloat<4, 3, 7, Specials::nan_only, false> {
  static constexpr float max_value = 448.0f;
  static constexpr int emax = 8;
};

/// MXINT8's element: two's complement, value = code / 64, kept symmetric (-128 decodes, is never
/// encoded).
struct Int8 {
  static constexpr int mantissa_bits = 6;
  static constexpr int code_count = 256;
  static constexpr std::uint8_t sign_bit = 0;
  static constexpr std::uint8_t max_code = 127;
  static constexpr std::uint8_t nan_code = 0;  // there is no NaN
  static constexpr float max_value = 127.0f / 64.0f;
  static constexpr int emax = 0;

  MICROSCALE_HD static constexpr bool is_nan(std::uint8_t) { return false; }
  MICROSCALE_HD static constexpr float decode(std::uint8_t code) {
    return static_cast<float>(static_cast<std::int8_t>(code)) * (1.0f / 64.0f);
  }
  MICROSCALE_HD static constexpr std::uint8_t encode(float value, Rounding rounding,
                                                     std::uint32_t random16 = 0) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return nan_code;
    const int field = static_cast<int>(magnitude >> 23);
    std::uint32_t steps = 127;
    if (field < 128) {  // below 2: significand * 2^(field - 150) in steps of 2^-6
      const std::uint32_t significand = (magnitude & 0x7FFFFFu) | (field > 0 ? 0x800000u : 0u);
      const int shift = 144 - (field > 0 ? field : 1);
      steps = round_shift(0, significand, shift < 40 ? shift : 40, rounding, random16);
      if (steps > 127) steps = 127;
    }
    const int signed_steps = (bits >> 31) ? -static_cast<int>(steps) : static_cast<int>(steps);
    return static_cast<std::uint8_t>(signed_steps);
  }
};

/// NormalFloat4 (QLoRA): 16 quantiles of a normal distribution in [-1, 1]; to compare with. Always
/// nearest, a tie to the lower code, whatever the rounding asked for.
struct NF4 {
  static constexpr int mantissa_bits = 3;
  static constexpr int code_count = 16;
  static constexpr std::uint8_t sign_bit = 0;
  static constexpr std::uint8_t max_code = 15;
  static constexpr std::uint8_t nan_code = 7;  // zero: there is no NaN
  static constexpr float max_value = 1.0f;
  static constexpr int emax = 0;

  MICROSCALE_HD static constexpr bool is_nan(std::uint8_t) { return false; }
  MICROSCALE_HD static constexpr float decode(std::uint8_t code) {
    constexpr float values[16] = {-1.0f,
                                  -0.6961928009986877f,
                                  -0.5250730514526367f,
                                  -0.39491748809814453f,
                                  -0.28444138169288635f,
                                  -0.18477343022823334f,
                                  -0.09105003625154495f,
                                  0.0f,
                                  0.07958029955625534f,
                                  0.16093020141124725f,
                                  0.24611230194568634f,
                                  0.33791524171829224f,
                                  0.44070982933044434f,
                                  0.5626170039176941f,
                                  0.7229568362236023f,
                                  1.0f};
    return values[code & 15];
  }
  MICROSCALE_HD static constexpr std::uint8_t encode(float value, Rounding, std::uint32_t = 0) {
    if (!(value == value)) return nan_code;
    std::uint8_t best = 0;
    for (std::uint8_t code = 1; code < 16; ++code) {
      const float midpoint = 0.5f * (decode(code - 1) + decode(code));
      if (value > midpoint) best = code;
    }
    return best;
  }
};

/// Calls fn(codec) with the codec of `element` and returns what it returns.
template <class Function>
constexpr auto with_codec(Element element, Function&& fn) {
  switch (element) {
    case Element::e4m3:
      return fn(E4M3{});
    case Element::e5m2:
      return fn(E5M2{});
    case Element::e2m3:
      return fn(E2M3{});
    case Element::e3m2:
      return fn(E3M2{});
    case Element::int8:
      return fn(Int8{});
    case Element::e3m0:
      return fn(E3M0{});
    case Element::nf4:
      return fn(NF4{});
    case Element::e2m1:
      break;
  }
  return fn(E2M1{});
}

}  // namespace microscale
