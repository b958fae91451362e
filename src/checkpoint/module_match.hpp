// Which modules the targets and ignore lists of a quantization_config mean, as loaders read them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "checkpoint/pattern.hpp"
#include "checkpoint/quantization_config.hpp"

namespace microscale {

enum class Match { no, yes, unknown };

/// A list of module names, "re:" and an expression matched from the start, or class names. Of
/// classes only Linear can be told from the tensors; another class name, or an expression that is
/// not understood here, makes every name that nothing else matches `unknown`. ModelOpt's lists hold
/// wildcards instead.
class ModuleList {
 public:
  ModuleList(const std::vector<std::string>& entries, bool wildcards);

  /// `linear`: the module is a linear layer.
  Match matches(std::string_view module, bool linear) const;

  /// By name or expression alone, not by class.
  bool names(std::string_view module) const;

  /// Entries that cannot be judged here.
  const std::vector<std::string>& not_understood() const { return not_understood_; }

 private:
  std::unordered_set<std::string> names_;
  std::vector<Pattern> patterns_;
  bool linear_ = false;
  std::vector<std::string> not_understood_;
};

/// What a config says about one module.
struct Expectation {
  Match quantized = Match::no;
  const QuantizationGroup* group = nullptr;  // that loaders take for it, ignored or not
  const QuantizationGroup* rival = nullptr;  // another that names it too, further down
  bool ignored = false;
};

/// Loaders look for a group that names the module, in the order of the groups, and only then for
/// one that means its class.
class ModuleExpectations {
 public:
  /// `config` must outlive this.
  explicit ModuleExpectations(const QuantizationConfig& config);
  Expectation of(std::string_view module, bool linear) const;
  /// Targets and ignore entries that cannot be judged here.
  std::vector<std::string> not_understood() const;

 private:
  Match find_group(std::string_view module, bool linear, Expectation& expectation) const;

  const QuantizationConfig& config_;
  ModuleList ignore_;
  std::vector<ModuleList> targets_;  // of each group
};

}  // namespace microscale
