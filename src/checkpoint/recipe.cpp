#include "checkpoint/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/containers/container_writer.hpp"
#include "checkpoint/format_choice.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

Result<std::vector<Pattern>> parse_patterns(const std::vector<std::string>& texts) {
  std::vector<Pattern> patterns;
  for (const std::string& text : texts) {
    auto pattern = Pattern::parse(text);
    if (!pattern) return pattern.failure();
    patterns.push_back(std::move(pattern.value()));
  }
  return patterns;
}

bool matches(const Pattern& pattern, const TensorEntry& tensor) {
  return pattern.matches(module_of(tensor.name)) || pattern.matches(tensor.name);
}

const Pattern* first_match(const std::vector<Pattern>& patterns, const TensorEntry& tensor) {
  for (const Pattern& pattern : patterns) {
    if (matches(pattern, tensor)) return &pattern;
  }
  return nullptr;
}

// Kept for what it is to the model, and not because it cannot be quantized.
bool can_be_included(const TensorEntry& tensor, const Verdict& verdict) {
  return verdict.linear && verdict.kind == TensorKind::linear && verdict.kept < Kept::scalar &&
         dense_type(tensor.type) && tensor.shape[0] > 0 && tensor.shape[1] > 0;
}

}  // namespace

Result<Recipe> Recipe::create(WeightFormat format, const std::vector<std::string>& include,
                              const std::vector<std::string>& ignore,
                              const std::vector<UseFormat>& use, Container container,
                              const FormatChoice* choice) {
  auto included = parse_patterns(include);
  if (!included) return included.failure();
  auto ignored = parse_patterns(ignore);
  if (!ignored) return ignored.failure();
  Recipe recipe;
  recipe.format_ = format;
  recipe.container_ = container;
  recipe.include_ = std::move(included.value());
  recipe.ignore_ = std::move(ignored.value());
  for (const UseFormat& each : use) {
    auto pattern = Pattern::parse(each.pattern);
    if (!pattern) return pattern.failure();
    recipe.use_.push_back({std::move(pattern.value()), each.format});
  }
  if (choice) {
    for (const GroupFormats& group : choice->groups)
      recipe.choice_.emplace(group.name, choice->menu[group.chosen]);
  }
  return recipe;
}

const Recipe::Use* Recipe::use_of(const TensorEntry& tensor) const {
  const auto found = std::find_if(use_.begin(), use_.end(),
                                  [&](const Use& use) { return matches(use.pattern, tensor); });
  return found == use_.end() ? nullptr : &*found;
}

const MenuFormat* Recipe::chosen(const TensorEntry& tensor) const {
  if (choice_.empty() || use_of(tensor)) return nullptr;
  const auto found = choice_.find(choice_group_of(tensor.name));
  return found == choice_.end() ? nullptr : &found->second;
}

WeightFormat Recipe::format_of(const TensorEntry& tensor) const {
  if (const Use* use = use_of(tensor)) return use->format;
  const MenuFormat* choice = chosen(tensor);
  return choice && *choice ? **choice : format_;
}

std::optional<std::string> Recipe::idle_use(
    const std::vector<const TensorEntry*>& quantized) const {
  for (const Use& use : use_) {
    const bool used =
        std::any_of(quantized.begin(), quantized.end(),
                    [&](const TensorEntry* tensor) { return use_of(*tensor) == &use; });
    if (!used) return std::string(use.pattern.text());
  }
  return std::nullopt;
}

Decision Recipe::decide(const TensorEntry& tensor, const Verdict& verdict) const {
  Decision decision{Treatment::copy, verdict.reason, verdict.linear, false, verdict.kept};
  if (verdict.kind == TensorKind::leftover) decision.treatment = Treatment::drop;
  const Pattern* included = first_match(include_, tensor);
  const bool named = std::any_of(include_.begin(), include_.end(), [&](const Pattern& pattern) {
    return pattern.is_literal() && matches(pattern, tensor);
  });
  if (verdict.kept != Kept::no && !(named && can_be_included(tensor, verdict))) {
    return decision;
  }
  if (!verdict.part) {
    std::string problem = block_problem(tensor.shape[1], format_of(tensor));
    if (problem.empty()) {
      problem = writer_of(container_).obstacle(format_of(tensor), tensor.shape[0], tensor.shape[1]);
    }
    if (!problem.empty()) {
      decision.reason = std::move(problem);
      decision.kept = Kept::block;
      return decision;
    }
  }
  if (const Pattern* ignored = first_match(ignore_, tensor)) {
    decision.reason = fmt::format("ignored by '{}'", ignored->text());
    decision.kept = Kept::ignored;
  } else if (!include_.empty() && !included) {
    decision.reason = "not included";
    decision.kept = Kept::not_included;
  } else if (const MenuFormat* choice = chosen(tensor); choice && !*choice) {
    decision.reason = phrase_of(Kept::budget);
    decision.kept = Kept::budget;
    return decision;
  } else {
    decision.treatment = verdict.part ? Treatment::split : Treatment::quantize;
    if (verdict.kept != Kept::no) decision.reason = "linear weight";
    decision.kept = Kept::no;
    return decision;
  }
  decision.by_user = true;
  return decision;
}

bool Recipe::ignores_by_name(const TensorEntry& tensor, std::string_view module) const {
  return std::any_of(ignore_.begin(), ignore_.end(), [&](const Pattern& pattern) {
    return pattern.is_literal() && (matches(pattern, tensor) || pattern.matches(module) ||
                                    pattern.matches(std::string(module) + ".weight"));
  });
}

std::optional<Recipe::UnusedPattern> Recipe::unmatched_pattern(
    const std::vector<const TensorEntry*>& tensors) const {
  const auto unmatched = [&](const Pattern& pattern) {
    return std::none_of(tensors.begin(), tensors.end(),
                        [&](const TensorEntry* tensor) { return matches(pattern, *tensor); });
  };
  for (const auto& [option, patterns] :
       {std::pair("--include", &include_), std::pair("--ignore", &ignore_)}) {
    const auto found = std::find_if(patterns->begin(), patterns->end(), unmatched);
    if (found != patterns->end()) return UnusedPattern{option, std::string(found->text())};
  }
  return std::nullopt;
}

std::optional<Recipe::UnusedPattern> Recipe::unused_pattern(
    const std::vector<const TensorEntry*>& tensors, const Classifier& classifier,
    const std::vector<const TensorEntry*>& beside) const {
  const auto used = [&](const Pattern& pattern, const std::vector<const TensorEntry*>& by) {
    return std::any_of(by.begin(), by.end(),
                       [&](const TensorEntry* tensor) { return matches(pattern, *tensor); });
  };
  for (const Pattern& pattern : include_) {
    if (!used(pattern, tensors)) return UnusedPattern{"--include", std::string(pattern.text())};
  }
  for (const Pattern& pattern : ignore_) {
    // A head that is tied has no tensor and may be named. What merely lies outside the repeated
    // layers may not: that is any word, such as a layer's name without its path.
    const Kept reason =
        pattern.is_literal() ? classifier.nature_of(module_of(pattern.text()), {}) : Kept::no;
    const bool by_default = reason != Kept::no && reason != Kept::outside;
    if (!by_default && !used(pattern, tensors) && !used(pattern, beside)) {
      return UnusedPattern{"--ignore", std::string(pattern.text())};
    }
  }
  return std::nullopt;
}

}  // namespace microscale
