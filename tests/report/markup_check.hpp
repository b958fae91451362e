// Checks of markup in tests: are all tags closed in order, all attributes quoted, all entities
// known?
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace microscale::testing {

/// What is wrong with `text` as XML (without declarations other than <!DOCTYPE html>); empty if
/// nothing is.
inline std::string markup_error(std::string_view text) {
  std::vector<std::string> open;
  const auto at_error = [&](std::string what, std::size_t at) {
    return what + " at: " + std::string(text.substr(at, 80));
  };
  constexpr std::string_view doctype = "<!DOCTYPE html>";
  std::size_t at = text.starts_with(doctype) ? doctype.size() : 0;
  while (at < text.size()) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x80) return at_error("not ASCII", at);
    if (c == '&') {
      const std::string_view rest = text.substr(at);
      bool known = rest.starts_with("&#") && rest.find(';') < 12;
      for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;"})
        known = known || rest.starts_with(entity);
      if (!known) return at_error("bare ampersand", at);
    }
    if (c == '>') return at_error("bare >", at);
    if (c != '<') {
      ++at;
      continue;
    }
    const std::size_t start = at;
    char quote = 0;
    for (++at; at < text.size() && (quote != 0 || text[at] != '>'); ++at) {
      if (quote != 0 && text[at] == '<') return at_error("< in an attribute", start);
      if (quote == 0 && text[at] == '<') return at_error("< in a tag", start);
      if (quote != 0 ? text[at] == quote : text[at] == '"') quote = quote != 0 ? 0 : '"';
      if (text[at] == '=' && quote == 0 && text[at + 1] != '"')
        return at_error("unquoted value", start);
    }
    if (at >= text.size()) return at_error("unclosed tag", start);
    std::string_view tag = text.substr(start + 1, at - start - 1);
    ++at;
    const std::string name(
        tag.substr(tag.starts_with('/') ? 1 : 0,
                   tag.find_first_of(" />", 1) - (tag.starts_with('/') ? 1 : 0)));
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return at_error("wrong closing tag", start);
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

}  // namespace microscale::testing
