#include "checkpoint/numerics_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

Status check_statistics_use(const QuantizeModelOptions& options) {
  const StatisticsUse& use = options.statistics;
  const auto refuse = [](std::string text) {
    return Failure{ErrorCode::invalid_argument, "quantize: " + std::move(text)};
  };
  if (options.importance.empty() && use != StatisticsUse{})
    return refuse(
        "--method, --shrink and --damping have no effect without statistics (--importance); leave "
        "them out");
  if (use.method == StatisticsMethod::search &&
      (use.shrink || use.damping != StatisticsUse{}.damping))
    return refuse("--shrink and --damping have no effect on --method search; leave them out");
  if (use.shrink && !(*use.shrink >= 0 && *use.shrink <= 1))
    return refuse(fmt::format("shrink {}; it takes a number from 0 to 1", *use.shrink));
  if (!(use.damping >= 0) || !std::isfinite(use.damping))
    return refuse(fmt::format("damping {}; it takes 0 or more, such as 0.01", use.damping));
  return success();
}

}  // namespace

Status check_numerics(const QuantizeModelOptions& options) {
  if (Status use = check_statistics_use(options); !use) return use;
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
