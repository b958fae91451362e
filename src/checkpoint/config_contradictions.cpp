#include "checkpoint/config_contradictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

// Rules of verify that speak of the description and the tensors together.
constexpr std::array<std::string_view, 11> rules{"config",
                                                 "config-without-tensors",
                                                 "no-quantization-config",
                                                 "format-mismatch",
                                                 "wrong-names",
                                                 "quantized-but-ignored",
                                                 "quantized-but-not-targeted",
                                                 "dense-but-expected",
                                                 "missing-input-scale",
                                                 "extra-tensor",
                                                 "input-scale-reciprocal"};

// Beyond what verify calls suspicious of the values that are there: the scales are not read here.
constexpr double largest_scale_times_code = 2688;  // 448 * 6
constexpr double suspicious_magnitude = 1e4;

void find_reversed_globals(const QuantizedFolder& folder, std::vector<std::string>& told) {
  const LogicalTensor* first = nullptr;
  double largest = 0;
  std::size_t count = 0;
  for (const LogicalTensor& tensor : folder.tensors) {
    const auto coding = tensor.blocks();
    if (!coding || coding->format != Format::nvfp4) continue;
    const double multiplier = coding->divisor != 0 ? 1.0 / static_cast<double>(coding->divisor)
                                                   : static_cast<double>(coding->multiplier);
    if (multiplier * largest_scale_times_code <= suspicious_magnitude) continue;
    if (count++ == 0) {
      first = &tensor;
      largest = multiplier * largest_scale_times_code;
    }
  }
  if (!first) return;
  told.push_back(fmt::format(
      "{}{}: the global scale stands for weights as large as {:.3g}, which no trained model has; "
      "it may be stored as its reciprocal (weight_global_scale divides, weight_scale_2 multiplies)",
      in_quotes(first->name), count > 1 ? fmt::format(" and {} more", count - 1) : "", largest));
}

}  // namespace

std::vector<std::string> config_contradictions(const QuantizedFolder& folder) {
  std::vector<std::string> told;
  if (folder.model.is_gguf || folder.planned) return told;
  Findings findings;
  const auto description = read_description(folder, findings);
  verify_config(folder, description ? &*description : nullptr, findings);
  verify_input_scales(folder, findings);
  for (const std::string_view rule : rules) {
    const auto is_of_rule = [&](const Finding& finding) { return finding.rule == rule; };
    const auto first = std::find_if(findings.begin(), findings.end(), is_of_rule);
    if (first == findings.end()) continue;
    const auto more = std::count_if(first + 1, findings.end(), is_of_rule);
    told.push_back(fmt::format(
        "the description and the tensors contradict each other, and the tensors count: {}{}",
        first->message,
        more > 0 ? fmt::format(" (and {} more; `microscale verify` lists them)", more) : ""));
  }
  find_reversed_globals(folder, told);
  return told;
}

}  // namespace microscale
