// Names of the numeric options.
#include "microscale/numerics.hpp"

#include <array>
#include <utility>

namespace microscale {
namespace {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Names<ScaleRule, 13> rule_names{{
    {ScaleRule::search, "search"},
    {ScaleRule::full, "full"},
    {ScaleRule::nearest, "nearest"},
    {ScaleRule::four_over_six, "four_over_six"},
    {ScaleRule::four_over_six_mae, "four_over_six_mae"},
    {ScaleRule::floor, "floor"},
    {ScaleRule::ceil, "ceil"},
    {ScaleRule::rceil, "rceil"},
    {ScaleRule::even, "even"},
    {ScaleRule::even_down, "even_down"},
    {ScaleRule::even_1bit, "even_1bit"},
    {ScaleRule::amax_ceil, "amax_ceil"},
    {ScaleRule::amax_floor, "amax_floor"},
}};

constexpr Names<Rounding, 5> roundings{{
    {Rounding::nearest_even, "nearest_even"},
    {Rounding::nearest_away, "nearest_away"},
    {Rounding::nearest_toward_zero, "nearest_toward_zero"},
    {Rounding::toward_zero, "toward_zero"},
    {Rounding::stochastic, "stochastic"},
}};

constexpr Names<Compat, 10> compats{{
    {Compat::none, "none"},
    {Compat::ocp, "ocp"},
    {Compat::torchao, "torchao"},
    {Compat::transformer_engine, "transformer-engine"},
    {Compat::flashinfer, "flashinfer"},
    {Compat::vllm, "vllm"},
    {Compat::compressed_tensors, "compressed-tensors"},
    {Compat::modelopt, "modelopt"},
    {Compat::llama_cpp, "llama.cpp"},
    {Compat::microxcaling, "microxcaling"},
}};

constexpr std::array nvfp4_rules{ScaleRule::search, ScaleRule::full, ScaleRule::nearest,
                                 ScaleRule::four_over_six, ScaleRule::four_over_six_mae};
constexpr std::array mx_rules{ScaleRule::search,    ScaleRule::floor,     ScaleRule::ceil,
                              ScaleRule::rceil,     ScaleRule::even,      ScaleRule::even_down,
                              ScaleRule::even_1bit, ScaleRule::amax_ceil, ScaleRule::amax_floor};

template <class Enum, std::size_t N>
std::string_view name_of(const Names<Enum, N>& names, Enum value) {
  for (const auto& [key, name] : names)
    if (key == value) return name;
  return "unknown";
}

template <class Enum, std::size_t N>
std::optional<Enum> value_of(const Names<Enum, N>& names, std::string_view text) {
  for (const auto& [key, name] : names)
    if (name == text) return key;
  return std::nullopt;
}

template <class Range, class Name>
std::string join(const Range& range, Name&& name) {
  std::string text;
  for (const auto& item : range) {
    if (!text.empty()) text += ", ";
    text += name(item);
  }
  return text;
}

}  // namespace

std::span<const ScaleRule> scale_rules(Format format) {
  if (format == Format::nvfp4) return nvfp4_rules;
  return mx_rules;
}

std::string_view to_string(ScaleRule rule) { return name_of(rule_names, rule); }
std::string_view to_string(Rounding rounding) { return name_of(roundings, rounding); }
std::string_view to_string(Compat compat) { return name_of(compats, compat); }

std::optional<ScaleRule> parse_scale_rule(std::string_view name) {
  return value_of(rule_names, name);
}
std::optional<Rounding> parse_rounding(std::string_view name) { return value_of(roundings, name); }
std::optional<Compat> parse_compat(std::string_view name) { return value_of(compats, name); }

std::string scale_rule_names(Format format) {
  return join(scale_rules(format), [](ScaleRule rule) { return to_string(rule); });
}
std::string rounding_names() {
  return join(roundings, [](const auto& pair) { return pair.second; });
}
std::string compat_names() {
  return join(compats, [](const auto& pair) { return pair.second; });
}

}  // namespace microscale
