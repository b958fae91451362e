#include "help.hpp"

#include <algorithm>

namespace microscale {

std::string wrapped_help(const std::string& text, std::size_t width) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    const std::size_t gap = line.find("  ", line.find_first_not_of(' '));
    const bool described = line.rfind("  ", 0) == 0 && (gap != std::string::npos || line[2] == ' ');
    const std::size_t indent = described && width >= 60 ? help_column : 4;
    while (line.size() > width) {
      const std::size_t blank = line.rfind(' ', width);
      if (blank == std::string::npos || blank <= indent) break;
      out += line.substr(0, line.find_last_not_of(' ', blank) + 1) + "\n";
      line = std::string(indent, ' ') + line.substr(blank + 1);
    }
    out += line + "\n";
    at = end + 1;
  }
  return out;
}

}  // namespace microscale
