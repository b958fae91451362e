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

bool ModuleList::names(std::string_view module) const {
  return names_.contains(std::string(module)) ||
         std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const Pattern& pattern) { return pattern.matches(module); });
}

Match ModuleList::matches(std::string_view module, bool linear) const {
  if ((linear_ && linear) || names(module)) return Match::yes;
  return not_understood_.empty() ? Match::no : Match::unknown;
}

ModuleExpectations::ModuleExpectations(const QuantizationConfig& config)
    : config_(config), ignore_(config.ignore, config.is_modelopt()) {
  for (const QuantizationGroup& group : config.groups) targets_.emplace_back(group.targets, false);
}

Match ModuleExpectations::find_group(std::string_view module, bool linear,
                                     Expectation& expectation) const {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    if (!targets_[i].names(module)) continue;
    const QuantizationGroup*& place = expectation.group ? expectation.rival : expectation.group;
    if (!place) place = &config_.groups[i];
  }
  if (expectation.group) return Match::yes;
  Match targeted = Match::no;
  for (std::size_t i = 0; i < targets_.size() && targeted != Match::yes; ++i) {
    const Match match = targets_[i].matches(module, linear);
    if (match == Match::yes) expectation.group = &config_.groups[i];
    if (match != Match::no) targeted = match;
  }
  return targeted;
}

Expectation ModuleExpectations::of(std::string_view module, bool linear) const {
  Expectation expectation;
  const Match targeted = find_group(module, linear, expectation);
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
