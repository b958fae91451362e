#include "checkpoint/first_codes.hpp"

#include <fmt/format.h>

#include "checkpoint/classifier.hpp"
#include "checkpoint/json.hpp"

namespace microscale {

std::optional<std::string> first_codes(const QuantizedFolder& folder) {
  if (!folder.modules.empty()) {
    const QuantizedModule& module = folder.modules.front();
    return fmt::format("{} is {}", in_quotes(module.codes->name()), info(module.format).name);
  }
  if (!folder.weights.empty()) {
    const StoredWeight& weight = *folder.weights.front();
    return fmt::format("{} is {}", in_quotes(weight.codes().name()), weight.facts().description);
  }
  const Classifier classifier = take(classify_model(folder.model));
  for (const ModelTensor& tensor : folder.model.tensors) {
    const Verdict verdict = classifier.judge(*tensor.entry);
    if (verdict.kind != TensorKind::quantized) continue;
    return fmt::format("{} shows {}", in_quotes(tensor.name()), to_string(*verdict.tool));
  }
  return std::nullopt;
}

}  // namespace microscale
