// Terminal properties, the width of Unicode text, and shortening it.
#include "report/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "report/utf8.hpp"

namespace microscale {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(environment(name));
    if (value.empty()) continue;  // the first one set decides
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

struct Range {
  char32_t first, last;
};

constexpr std::array zero_width = {Range{0x0300, 0x036F}, Range{0x1AB0, 0x1AFF},
                                   Range{0x1DC0, 0x1DFF}, Range{0x20D0, 0x20FF},
                                   Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}};
constexpr std::array wide = {
    Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0x4DBF},
    Range{0x4E00, 0xA4CF},   Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},
    Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},
    Range{0x1F300, 0x1F64F}, Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};

template <std::size_t N>
bool contains(const std::array<Range, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](Range r) { return c >= r.first && c <= r.last; });
}

int columns_of(const CodePoint& point) {
  if (!point.valid || point.value < 0x300) return 1;
  return contains(zero_width, point.value) ? 0 : contains(wide, point.value) ? 2 : 1;
}

/// What COLUMNS says; 0 where it is not set, or no width.
int columns_of_environment() {
  const int columns = std::atoi(std::string(environment("COLUMNS")).c_str());
  return columns > 0 && columns < 10000 ? columns : 0;
}

/// Bytes of the escape sequence that begins there, "\x1b[1m"; 0: none does.
std::size_t escape_bytes(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) != "\x1b[") return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", at + 2);
  return end == text.npos ? text.size() - at : end + 1 - at;
}

int visible_width(std::string_view text) {
  int width = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t escape = escape_bytes(text, at); escape > 0) {
      at += escape;
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    width += columns_of(point);
    at += point.bytes;
  }
  return width;
}

/// One line without its newline.
std::string fitted_line(std::string_view line, int width) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const auto indent = std::min(begin + 2, static_cast<std::size_t>(width) / 2);
  std::string out(line.substr(0, begin));
  int column = static_cast<int>(begin);
  bool empty = true;  // the line that is being filled
  for (std::size_t at = begin; at < line.size();) {
    const std::size_t word = std::min(line.find_first_not_of(' ', at), line.size());
    const std::size_t end = std::min(line.find(' ', word), line.size());
    const int columns = visible_width(line.substr(word, end - word));
    const auto blanks = static_cast<int>(word - at);
    if (!empty && column + blanks + columns > width) {
      out += "\n" + std::string(indent, ' ');
      column = static_cast<int>(indent);
    } else {
      out.append(word - at, ' ');
      column += blanks;
    }
    out += line.substr(word, end - word);
    column += columns;
    empty = false;
    at = end;
  }
  return out;
}

/// Bytes of the longest beginning of `text` that takes at most `width` columns.
std::size_t prefix_bytes(std::string_view text, int width) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text, at);
    width -= columns_of(point);
    if (width < 0) break;
    at += point.bytes;
  }
  return at;
}

}  // namespace

int terminal_width(int fd) {
  if (isatty(fd) == 0) return 0;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int columns = columns_of_environment();
  return columns > 0 ? columns : 80;
}

bool plain_text_wanted() {
  const std::string_view ci = environment("CI");
  return !environment("NO_COLOR").empty() || environment("TERM") == "dumb" ||
         (!ci.empty() && ci != "0" && ci != "false");
}

TextStyle text_style(int fd) {
  TextStyle style;
  style.terminal = isatty(fd) != 0;
  style.width = style.terminal ? terminal_width(fd) : columns_of_environment();
  style.utf8 = locale_is_utf8();
  if (!style.terminal || plain_text_wanted()) return style;
  style.boxes = style.utf8;
  style.colour = true;
  return style;
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    width += columns_of(point);
    at += point.bytes;
  }
  return width;
}

std::string printable(std::string_view text, bool utf8) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const bool keep = point.valid && !is_control(point.value) && (utf8 || point.value < 0x80);
    out += keep ? text.substr(at, point.bytes) : std::string_view("?");
    at += point.bytes;
  }
  return out;
}

std::string shorten_middle(std::string_view text, int width) {
  const int full = display_width(text);
  if (full <= width) return std::string(text);
  if (width < 5) return std::string(text.substr(0, prefix_bytes(text, width)));
  const int head = (width - 3) / 3;
  const int tail = width - 3 - head;
  // The tail starts at the first character that leaves at most `tail` columns.
  std::size_t start = prefix_bytes(text, full - tail);
  while (display_width(text.substr(start)) > tail) start += decode_utf8(text, start).bytes;
  return std::string(text.substr(0, prefix_bytes(text, head))) + "..." +
         std::string(text.substr(start));
}

std::string fitted(std::string_view text, int width) {
  if (width <= 0) return std::string(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    out += visible_width(line) > width ? fitted_line(line, width) : std::string(line);
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

std::string shorten_name(std::string_view name, int width) {
  if (display_width(name) <= width) return std::string(name);
  struct Part {
    std::string_view text;
    bool kept;
  };
  std::vector<Part> parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    parts.push_back({name.substr(at, end - at), true});
    at = end + 1;
  }
  for (std::size_t drop = 0; drop + 2 < parts.size(); ++drop) {
    if (parts[drop].text.find_first_not_of("0123456789") == std::string_view::npos) continue;
    parts[drop].kept = false;
    std::string text;
    bool after_kept = false;
    for (const Part& part : parts) {
      if (part.kept) {
        if (after_kept) text += '.';
        text += part.text;
      } else if (after_kept || text.empty()) {
        text += "...";
      }
      after_kept = part.kept;
    }
    if (display_width(text) <= width) return text;
  }
  return shorten_middle(name, width);
}

}  // namespace microscale
