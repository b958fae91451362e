#include "checkpoint/include_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/json.hpp"
#include "checkpoint/pattern.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

// Kept for what it is to the model, so that naming it overrules that.
bool can_be_named(const TensorTreatment& tensor) {
  return tensor.decision.linear && tensor.decision.kept < Kept::scalar;
}

Failure without_effect(const std::string& pattern, const TensorTreatment& tensor) {
  const std::string_view module = module_of(tensor.entry->name);
  const std::string advice = can_be_named(tensor)
                                 ? fmt::format(
                                       "to quantize it all the same, name it without wildcards: "
                                       "--include '{}'",
                                       module)
                                 : "leave the pattern out";
  return {ErrorCode::invalid_argument,
          fmt::format("quantize: --include {} has no effect: {} is kept ({}); {}",
                      in_quotes(pattern), in_quotes(module), tensor.decision.reason, advice)};
}

}  // namespace

Status check_includes(const std::vector<std::string>& include,
                      const std::vector<TensorTreatment>& treatments) {
  for (const std::string& text : include) {
    const auto pattern = Pattern::parse(text);
    if (!pattern) return pattern.failure();
    const TensorTreatment* kept = nullptr;
    bool effect = false;
    for (const TensorTreatment& tensor : treatments) {
      const std::string& name = tensor.entry->name;
      if (!pattern.value().matches(name) && !pattern.value().matches(module_of(name))) continue;
      const Treatment treatment = tensor.decision.treatment;
      effect |= treatment == Treatment::quantize || treatment == Treatment::split ||
                tensor.decision.kept == Kept::budget;
      if (!kept || (can_be_named(tensor) && !can_be_named(*kept))) kept = &tensor;
    }
    if (!effect && kept) return without_effect(text, *kept);
  }
  return success();
}

}  // namespace microscale
