// How a number becomes a code: every choice on which existing tools disagree, by name, with one
// default. docs/formats/numerics.md defines each; the same options give the same bytes on every
// backend.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "microscale/format.hpp"

namespace microscale {

/// How the scale of a block follows from its elements. E8M0: the byte before clamping to [0, 254],
/// where emax is the exponent of the element's largest value (2 for E2M1, 8 for E4M3).
enum class ScaleRule : std::uint8_t {
  search,   ///< least squared error: MX: of the floor byte and the next; NVFP4: of ten E4M3 codes
  full,     ///< NVFP4: least squared error of all 126 positive E4M3 codes
  nearest,  ///< NVFP4: E4M3 nearest to amax / 6 / global scale
  four_over_six,  ///< NVFP4: the better of amax/6 and amax/4 by squared error; a tie takes amax/6
  four_over_six_mae,  ///< NVFP4: as above by absolute error
  floor,              ///< MX: floor(log2 amax) - emax (OCP)
  ceil,               ///< MX: ceil(log2 amax) - emax
  rceil,              ///< MX: ceil(log2(amax / largest element)), so that nothing saturates
  even,        ///< MX: exponent of amax rounded to the element's mantissa width, ties up, - emax
  even_down,   ///< MX: as `even`, ties down
  even_1bit,   ///< MX: as `even` with one mantissa bit whatever the element (threshold 1.75)
  amax_ceil,   ///< MX: ceil(log2 amax): no emax subtracted; zero block 127 (docs/articles.md)
  amax_floor,  ///< MX: floor(log2 amax): no emax subtracted
};

/// How a scaled element becomes a code. All saturate at the largest finite code.
enum class Rounding : std::uint8_t {
  nearest_even,         ///< IEEE and hardware
  nearest_away,         ///< ties away from zero
  nearest_toward_zero,  ///< ties toward zero
  toward_zero,
  stochastic,  ///< up with probability = the discarded fraction (16 bits of it)
};

/// What one NaN does to its block.
enum class NanPolicy : std::uint8_t {
  propagate,  ///< the whole block becomes NaN (E8M0 255, E4M3 0x7F); codes are the element's NaN
              ///< code
  drop,       ///< ignored for the scale; the element itself takes the element type's NaN code
};

/// What one infinity does to its block.
enum class InfPolicy : std::uint8_t {
  saturate,   ///< the scale saturates (E8M0 254, E4M3 448), the element takes the largest code
  nan_block,  ///< as a NaN under NanPolicy::propagate
};

/// Which code an element that rounds to zero takes.
enum class ZeroCode : std::uint8_t {
  keep_sign,  ///< -0 and small negatives give the code of -0 (hardware)
  positive,   ///< always +0
};

/// The tools whose bytes can be had exactly; docs/formats/compat.md says what each cannot
/// reproduce.
enum class Compat : std::uint8_t {
  none,  ///< our own defaults
  ocp,
  torchao,
  transformer_engine,
  flashinfer,
  vllm,
  compressed_tensors,
  modelopt,
  llama_cpp,
  microxcaling,
};

/// All options of one quantization. The default is what `microscale quantize` uses.
struct Numerics {
  ScaleRule scale_rule = ScaleRule::search;
  Rounding rounding = Rounding::nearest_even;
  NanPolicy nan = NanPolicy::propagate;
  InfPolicy inf = InfPolicy::saturate;
  ZeroCode zero_code = ZeroCode::keep_sign;
  Compat compat =
      Compat::none;        ///< where a tool's arithmetic differs in its last bit, follow that tool
  std::uint64_t seed = 0;  ///< stochastic rounding only
  bool operator==(const Numerics&) const = default;
};

/// The options under which `compat` gives the tool's bytes for `format`. Throws Error{unsupported}
/// where the tool has no such format.
Numerics numerics_for(Compat compat, Format format);

/// The rules that `format` has, the default first.
std::span<const ScaleRule> scale_rules(Format format);

std::string_view to_string(ScaleRule rule);
std::string_view to_string(Rounding rounding);
std::string_view to_string(Compat compat);
std::optional<ScaleRule> parse_scale_rule(std::string_view name);
std::optional<Rounding> parse_rounding(std::string_view name);
std::optional<Compat> parse_compat(std::string_view name);
/// "search, floor, ...": for messages that list the choices.
std::string scale_rule_names(Format format);
std::string rounding_names();
std::string compat_names();

}  // namespace microscale
