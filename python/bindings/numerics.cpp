// Words of the options of a quantization as the library's enumerators.
#include <fmt/format.h>

#include <algorithm>

#include "microscale/error.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

[[noreturn]] void fail(const char* argument, std::string_view word, std::string_view choices) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: there is no '{}'; choose one of {}", argument, word, choices));
}

/// One of two words.
template <class Enum>
void choose(nb::handle object, const char* argument, const char* first, Enum first_value,
            const char* second, Enum second_value, Enum& out) {
  if (object.is_none()) return;
  const std::string_view word = word_of(object, argument);
  if (word == first)
    out = first_value;
  else if (word == second)
    out = second_value;
  else
    fail(argument, word, fmt::format("{}, {}", first, second));
}

}  // namespace

Format format_from(std::string_view name) {
  if (const std::optional<Format> format = parse_format(name)) return *format;
  fail("format", name, format_names());
}

Layout layout_from(std::string_view name) {
  if (name == "row_major") return Layout::row_major;
  if (name == "tiled_128x4") return Layout::tiled_128x4;
  fail("layout", name, "row_major, tiled_128x4");
}

std::string_view name_of(Layout layout) {
  return layout == Layout::row_major ? "row_major" : "tiled_128x4";
}

Compat compat_from(std::string_view name) {
  if (const std::optional<Compat> compat = parse_compat(name)) return *compat;
  std::string other(name);  // as Python names are spelled: llama_cpp, compressed_tensors
  std::ranges::replace(other, '_', other.starts_with("llama") ? '.' : '-');
  if (const std::optional<Compat> compat = parse_compat(other)) return *compat;
  fail("compat", name, compat_names());
}

Numerics numerics_from(const NumericWords& words, Format format) {
  Numerics numerics;
  if (!words.compat.is_none())
    numerics = numerics_for(compat_from(word_of(words.compat, "compat")), format);
  if (!words.scale_rule.is_none()) {
    const std::string_view word = word_of(words.scale_rule, "scale_rule");
    const std::optional<ScaleRule> rule = parse_scale_rule(word);
    if (!rule) fail("scale_rule", word, scale_rule_names(format));
    numerics.scale_rule = *rule;
  }
  if (!words.rounding.is_none()) {
    const std::string_view word = word_of(words.rounding, "rounding");
    const std::optional<Rounding> rounding = parse_rounding(word);
    if (!rounding) fail("rounding", word, rounding_names());
    numerics.rounding = *rounding;
  }
  choose(words.nan, "nan", "propagate", NanPolicy::propagate, "drop", NanPolicy::drop,
         numerics.nan);
  choose(words.inf, "inf", "saturate", InfPolicy::saturate, "nan_block", InfPolicy::nan_block,
         numerics.inf);
  choose(words.zero_code, "zero_code", "keep_sign", ZeroCode::keep_sign, "positive",
         ZeroCode::positive, numerics.zero_code);
  numerics.seed = words.seed;
  return numerics;
}

}  // namespace microscale::python
