#include "checkpoint/module_match.hpp"

#include <algorithm>

namespace microscale {
namespace {

constexpr std::string_view expression_prefix = "re:";

// "Qwen3MoeExperts": a class. Module names begin with a small letter or hold a dot.
bool is_class_name(std::string_view entry) {
  return entry.find('.') == std::string_view::npos && !entry.empty() && entry.front() >= 'A' &&
         entry.front() <= 'Z';
}

}  // namespace

ModuleList::ModuleList(const std::vector<std::string>& entries, bool wildcards) {
  for (const std::string& entry : entries) {
    if (entry == "Linear") {
      linear_ = true;
    } else if (wildcards || entry.starts_with(expression_prefix)) {
      auto pattern = Pattern::parse(entry);
      if (pattern) {
        patterns_.push_back(std::move(pattern.value()));
      } else {
        not_understood_.push_back(entry);
      }
    } else {
      names_.insert(entry);
      if (is_class_name(entry)) not_understood_.push_back(entry);
    }
  }
}

Match ModuleList::matches(std::string_view module, bool linear) const {
  if ((linear_ && linear) || names_.contains(std::string(module))) return Match::yes;
  for (const Pattern& pattern : patterns_) {
    if (pattern.matches(module)) return Match::yes;
  }
  return not_understood_.empty() ? Match::no : Match::unknown;
}

ModuleExpectations::ModuleExpectations(const QuantizationConfig& config)
    : config_(config), ignore_(config.ignore, config.method == "modelopt") {
  for (const QuantizationGroup& group : config.groups) targets_.emplace_back(group.targets, false);
}

Expectation ModuleExpectations::of(std::string_view module, bool linear) const {
  Expectation expectation;
  Match targeted = Match::no;
  for (std::size_t i = 0; i < targets_.size() && targeted != Match::yes; ++i) {
    const Match match = targets_[i].matches(module, linear);
    if (match == Match::yes) expectation.group = &config_.groups[i];
    if (match != Match::no) targeted = match;
  }
  const Match ignored = ignore_.matches(module, linear);
  expectation.ignored = ignored == Match::yes;
  if (ignored == Match::yes) {
    expectation.quantized = Match::no;
  } else {
    expectation.quantized =
        targeted != Match::no && ignored == Match::unknown ? Match::unknown : targeted;
  }
  return expectation;
}

std::vector<std::string> ModuleExpectations::not_understood() const {
  std::vector<std::string> all = ignore_.not_understood();
  for (const ModuleList& list : targets_) {
    all.insert(all.end(), list.not_understood().begin(), list.not_understood().end());
  }
  return all;
}

}  // namespace microscale
