// One block under every scale rule and rounding its format has, with E3M0 and NF4 beside them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "console.hpp"
#include "explain.hpp"
#include "formats/elements.hpp"
#include "report/table.hpp"

namespace microscale {
namespace {

constexpr Rounding all_roundings[] = {Rounding::nearest_even, Rounding::nearest_away,
                                      Rounding::nearest_toward_zero, Rounding::toward_zero,
                                      Rounding::stochastic};

std::string hexadecimal(const std::vector<std::uint8_t>& codes, int digits) {
  std::string text;
  for (const std::uint8_t code : codes)
    text += fmt::format("{}{:0{}X}", digits > 1 && !text.empty() ? " " : "", code, digits);
  return text;
}

Alternative of_format(const ExplainCommand& command, const std::string& rule) {
  const BlockSteps steps = block_steps(command);
  std::vector<std::uint8_t> codes;
  for (const ElementSteps& element : steps.elements) codes.push_back(element.code);
  return {.rule = rule,
          .rounding = std::string(to_string(command.numerics.rounding)),
          .scale = fmt::format("{} 0x{:02X}", steps.scale_code, steps.scale_code),
          .codes = hexadecimal(codes, steps.format.code_bits / 4),
          .error = steps.error};
}

// A codec that no block format here uses, scaled so that amax becomes its largest value.
template <class Codec>
Alternative of_codec(const ExplainCommand& command, const std::string& name) {
  float amax = 0;
  for (const float value : command.values)
    if (std::fabs(value) > amax) amax = std::fabs(value);
  const float scale = amax > 0 ? amax / Codec::max_value : 1.0f;
  std::vector<std::uint8_t> codes;
  std::vector<float> restored;
  for (const float value : command.values) {
    codes.push_back(Codec::encode(value / scale, Rounding::nearest_even));
    restored.push_back(Codec::decode(codes.back()) * scale);
  }
  return {.rule = name,
          .rounding = std::string(to_string(Rounding::nearest_even)),
          .scale = fmt::format("{:.4g}", scale),
          .codes = hexadecimal(codes, 1),
          .error = error_run(command.values, restored),
          .best = false,
          .reference = true};
}

}  // namespace

std::vector<Alternative> alternatives(const ExplainCommand& command) {
  std::vector<Alternative> all;
  ExplainCommand variant = command;
  variant.numerics.compat = Compat::none;
  for (const ScaleRule rule : scale_rules(command.format)) {
    variant.numerics.scale_rule = rule;
    for (const Rounding rounding : all_roundings) {
      variant.numerics.rounding = rounding;
      all.push_back(of_format(variant, std::string(to_string(rule))));
    }
  }
  if (command.numerics.compat != Compat::none)
    all.push_back(of_format(command, "compat " + std::string(to_string(command.numerics.compat))));
  double least = INFINITY;
  for (const Alternative& alternative : all)
    least = std::fmin(least, alternative.error.relative_mse());
  for (Alternative& alternative : all) alternative.best = alternative.error.relative_mse() == least;
  all.push_back(of_codec<E3M0>(command, "e3m0"));
  all.push_back(of_codec<NF4>(command, "nf4"));
  return all;
}

void print_alternatives(const ExplainCommand& command, const std::vector<Alternative>& alternatives,
                        Console& console) {
  const FormatInfo& format = info(command.format);
  console.print(
      console.bold(paragraph(fmt::format("{}: {} values under every scale rule and rounding",
                                         format.name, command.values.size()),
                             console.out.width)) +
      "\n");
  // The scale does not depend on the rounding: a heading a rule, and below it a row a rounding.
  Table table(
      {{"scale rule, rounding"}, {"codes", Align::left, true}, {"rel. MSE", Align::right}, {""}});
  const auto add = [&](const std::string& title, const Alternative& alternative) {
    table.add_row({title, alternative.codes, format_percent(alternative.error.relative_mse(), 3),
                   alternative.best ? "*" : ""});
  };
  std::string before;
  for (const Alternative& alternative : alternatives) {
    const std::string heading = alternative.rule + ": scale " + alternative.scale;
    if (alternative.reference) {
      if (!before.empty()) table.add_rule();
      before.clear();
      add(heading, alternative);
      continue;
    }
    if (heading != before) {
      if (!before.empty()) table.add_rule();
      table.add_row({heading});
    }
    before = heading;
    add("  " + alternative.rounding, alternative);
  }
  console.print(table.text(console.out));
  console.print(
      "\n" + paragraph("* least error of this format", console.out.width) +
      paragraph("e3m0, nf4: no block formats here, only to compare with; their scale is an FP32 "
                "number, amax / largest value.",
                console.out.width));
}

nlohmann::ordered_json to_json(const ExplainCommand& command,
                               const std::vector<Alternative>& alternatives) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Alternative& alternative : alternatives) {
    rows.push_back({{"scale_rule", alternative.rule},
                    {"rounding", alternative.rounding},
                    {"scale", alternative.scale},
                    {"codes", alternative.codes},
                    {"relative_mse", alternative.error.relative_mse()},
                    {"max_error", alternative.error.max_error},
                    {"best", alternative.best},
                    {"reference_codec", alternative.reference}});
  }
  return {
      {"format", info(command.format).name}, {"values", command.values}, {"alternatives", rows}};
}

}  // namespace microscale
