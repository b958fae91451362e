#include "checkpoint/numerics_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/compat.hpp"

namespace microscale {
namespace {

// Weights of errors matter only to a rule that weighs errors against each other.
bool weighs_errors(const Numerics& numerics, Format format) {
  switch (numerics.scale_rule) {
    case ScaleRule::search:
    case ScaleRule::full:
    case ScaleRule::four_over_six:
    case ScaleRule::four_over_six_mae:
      return !follows_tool(numerics, format);
    default:
      return false;
  }
}

}  // namespace

Status check_numerics(const QuantizeModelOptions& options) {
  const auto rules = scale_rules(options.format);
  if (std::find(rules.begin(), rules.end(), options.numerics.scale_rule) != rules.end()) {
    if (options.importance.empty() || weighs_errors(options.numerics, options.format)) {
      return success();
    }
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("quantize: importance has no effect on scale rule {}{}, which compares no "
                    "errors; leave it out, or take the rule search",
                    to_string(options.numerics.scale_rule),
                    options.numerics.compat == Compat::none
                        ? ""
                        : fmt::format(" as {} does it", to_string(options.numerics.compat)))};
  }
  return Failure{
      ErrorCode::invalid_argument,
      fmt::format("quantize: {} has no scale rule {}; it has {}", info(options.format).name,
                  to_string(options.numerics.scale_rule), scale_rule_names(options.format))};
}

}  // namespace microscale
