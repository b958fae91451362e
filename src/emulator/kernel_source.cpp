#include "emulator/kernel_source.hpp"

#include <cctype>

namespace microscale::emulator {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// With blanks for comments.
std::string without_comments(std::string_view source) {
  std::string code(source);
  const auto blank = [&code](std::size_t from, std::size_t to) {
    for (std::size_t at = from; at < to; ++at)
      if (code[at] != '\n') code[at] = ' ';
  };
  for (std::size_t at = 0; at + 1 < code.size(); ++at) {
    if (code[at] != '/') continue;
    const bool line = code[at + 1] == '/';
    if (!line && code[at + 1] != '*') continue;
    const std::size_t end = code.find(line ? "\n" : "*/", at + 2);
    blank(at, end == code.npos ? code.size() : end + (line ? 0 : 2));
  }
  return code;
}

/// "x" of "const float *__restrict__ x = nullptr", "" of "int".
std::string declared_name(std::string_view parameter) {
  parameter = parameter.substr(0, parameter.find('='));
  parameter = parameter.substr(0, parameter.find('['));
  while (!parameter.empty() && !is_word(parameter.back())) parameter.remove_suffix(1);
  std::size_t begin = parameter.size();
  while (begin > 0 && is_word(parameter[begin - 1])) --begin;
  return begin == 0 ? "" : std::string(parameter.substr(begin));
}

}  // namespace

std::vector<std::string> parameter_names(std::string_view source, std::string_view kernel) {
  const std::string code = without_comments(source);
  for (std::size_t global = code.find("__global__"); global != code.npos;
       global = code.find("__global__", global + 1)) {
    const std::size_t end = code.find_first_of(";{", global);
    std::size_t at = code.find(kernel, global);
    // The name by itself, and the list right behind it.
    while (at < end && (is_word(code[at - 1]) || is_word(code[at + kernel.size()])))
      at = code.find(kernel, at + 1);
    if (kernel.empty() || at >= end) continue;
    const std::size_t open = code.find_first_not_of(" \t\n", at + kernel.size());
    if (open == code.npos || code[open] != '(') continue;
    std::vector<std::string> names;
    int depth = 0;
    std::size_t begin = open + 1;
    for (std::size_t i = open + 1; i < code.size(); ++i) {
      if ((code[i] == ',' || code[i] == ')') && depth == 0) {
        const std::string name = declared_name(std::string_view(code).substr(begin, i - begin));
        if (name.empty()) return {};
        names.push_back(name);
        begin = i + 1;
        if (code[i] == ')') return names;
      }
      depth += code[i] == '(' || code[i] == '<' || code[i] == '{';
      depth -= code[i] == ')' || code[i] == '>' || code[i] == '}';
    }
    return {};
  }
  return {};
}

}  // namespace microscale::emulator
