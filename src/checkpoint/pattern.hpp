// Names of tensors and modules by pattern, as users write them after --include and --ignore.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace microscale {

/// A glob that must match the whole name (`*`: any run of characters, dots too; `?`: one;
/// `[a-z]`, `[!a-z]`: one of a set), or "re:" and an ECMAScript regular expression that must match
/// from the start of the name but need not reach its end, as Python's re.match.
class Pattern {
 public:
  /// Longest pattern accepted, in characters.
  static constexpr std::size_t max_length = 1000;

  static Result<Pattern> parse(std::string_view text);

  /// Takes time and memory linear in the length of the name, whatever the expression.
  bool matches(std::string_view name) const;

  /// As written.
  const std::string& text() const { return text_; }
  /// A glob without wildcards: matches one name only.
  bool is_literal() const;

 private:
  std::string text_;
  struct Expression;
  std::shared_ptr<const Expression> expression_;  // null: a glob
};

/// The name as a regular expression that matches nothing else.
std::string escaped(std::string_view name);

}  // namespace microscale
