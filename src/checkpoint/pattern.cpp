#include "checkpoint/pattern.hpp"

// g++ 12 with sanitizers takes members of its own <regex> for uninitialized.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <fmt/format.h>

#include <regex>

#include "checkpoint/json.hpp"

namespace microscale {

struct Pattern::Expression {
  std::regex regex;
};

namespace {

constexpr std::string_view expression_prefix = "re:";

// The "[...]" at the start of `glob`: where it ends, and whether it has `c`. A ']' right after the
// opening bracket (or its '!') is a member.
struct SetMatch {
  std::size_t length = 0;  // 0: no closing bracket
  bool has = false;
};

SetMatch match_set(std::string_view glob, char c) {
  std::size_t at = 1;
  const bool negated = at < glob.size() && (glob[at] == '!' || glob[at] == '^');
  if (negated) ++at;
  const std::size_t first = at;
  SetMatch result;
  for (; at < glob.size(); ++at) {
    if (glob[at] == ']' && at > first) {
      result.length = at + 1;
      result.has = result.has != negated;
      return result;
    }
    const auto low = static_cast<unsigned char>(glob[at]), wanted = static_cast<unsigned char>(c);
    if (at + 2 < glob.size() && glob[at + 1] == '-' && glob[at + 2] != ']') {
      result.has |= low <= wanted && wanted <= static_cast<unsigned char>(glob[at + 2]);
      at += 2;
    } else {
      result.has |= low == wanted;
    }
  }
  return {};
}

// Goes back to the last '*' only: a later one can always take over from an earlier one.
bool matches_glob(std::string_view glob, std::string_view name) {
  std::size_t at = 0, i = 0, after_star = std::string_view::npos, star_end = 0;
  while (i < name.size()) {
    std::size_t step = 0;  // characters of the glob that match name[i]
    if (at < glob.size() && glob[at] == '*') {
      after_star = ++at;
      star_end = i;
      continue;
    }
    if (at < glob.size()) {
      if (glob[at] == '[') {
        const SetMatch set = match_set(glob.substr(at), name[i]);
        if (set.has) step = set.length;
      } else if (glob[at] == '?' || glob[at] == name[i]) {
        step = 1;
      }
    }
    if (step > 0) {
      at += step;
      ++i;
    } else if (after_star != std::string_view::npos) {
      at = after_star;
      i = ++star_end;
    } else {
      return false;
    }
  }
  while (at < glob.size() && glob[at] == '*') ++at;
  return at == glob.size();
}

Failure bad_pattern(std::string_view text, std::string_view problem, std::string_view advice) {
  return {ErrorCode::invalid_argument,
          fmt::format("the pattern {} {}; {}", in_quotes(text), problem, advice)};
}

}  // namespace

Result<Pattern> Pattern::parse(std::string_view text) {
  constexpr std::string_view example =
      "write a glob such as 'model.layers.0.*' or a regular expression such as 're:.*mlp\\.gate$'";
  if (text.empty() || text == expression_prefix) return bad_pattern(text, "is empty", example);
  if (text.size() > max_length) {
    return bad_pattern(text,
                       fmt::format("has {} characters, more than {}", text.size(), max_length),
                       "split it into several patterns");
  }
  Pattern pattern;
  pattern.text_ = text;
  if (!text.starts_with(expression_prefix)) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] != '[') continue;
      const std::size_t length = match_set(text.substr(at), ' ').length;
      if (length == 0)
        return bad_pattern(text, "has a '[' without a ']'", "write [[] for a bracket");
      at += length - 1;
    }
    return pattern;
  }
  try {
    // libstdc++'s other matcher recurses once per character and can take exponential time.
    constexpr auto linear = std::regex_constants::ECMAScript | std::regex_constants::__polynomial;
    pattern.expression_ = std::make_shared<const Expression>(
        Expression{std::regex(std::string(text.substr(expression_prefix.size())), linear)});
  } catch (const std::regex_error& error) {
    return bad_pattern(text,
                       fmt::format("is no regular expression understood here ({})", error.what()),
                       "use ECMAScript syntax without back-references");
  }
  return pattern;
}

bool Pattern::matches(std::string_view name) const {
  if (!expression_) return matches_glob(text_, name);
  return std::regex_search(name.begin(), name.end(), expression_->regex,
                           std::regex_constants::match_continuous);
}

bool Pattern::is_literal() const {
  return !expression_ && text_.find_first_of("*?[") == std::string::npos;
}

std::string escaped(std::string_view name) {
  std::string expression;
  for (const char c : name) {
    if (std::string_view(".^$|()[]{}*+?\\").find(c) != std::string_view::npos) expression += '\\';
    expression += c;
  }
  return expression;
}

}  // namespace microscale
