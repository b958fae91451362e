// What the terminal can show, and how wide text is on it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace microscale {

/// How to draw text for one output.
struct TextStyle {
  int width = 0;          ///< columns; 0: unlimited
  bool terminal = false;  ///< what is written can move the cursor
  bool utf8 = false;      ///< non-ASCII names
  bool boxes = false;     ///< box-drawing characters
  bool colour = false;    ///< escape sequences for bold and dim
};

/// Columns of the terminal behind `fd`; COLUMNS, then 80, where it does not say; 0 for no terminal.
int terminal_width(int fd);

/// NO_COLOR, CI or TERM=dumb: the user wants plain text that does not move.
bool plain_text_wanted();

/// For `fd`: UTF-8 by the locale variables (LC_ALL, LC_CTYPE, LANG). A terminal gives its width,
/// boxes where there is UTF-8, and colour; plain_text_wanted() turns the last two off. A file or
/// pipe has neither, and is as wide as COLUMNS says, or unlimited.
TextStyle text_style(int fd);

/// Columns `text` takes: combining marks 0, East Asian wide 2, everything else, broken bytes
/// too, 1.
int display_width(std::string_view text);

/// `text` safe to print: control characters and broken UTF-8 become '?', and so does every other
/// non-ASCII character unless `utf8`.
std::string printable(std::string_view text, bool utf8);

/// `text` in at most `width` columns: its middle replaced by "..." if it is longer, keeping more of
/// the end (tensor names differ there). Widths under 5 keep the beginning.
std::string shorten_middle(std::string_view text, int width);

/// `text` with every line of more than `width` columns (0: none is) broken at its blanks, what
/// follows indented by two more than the line was. Escape sequences take no column. A word longer
/// than a line stays whole, so that it can be copied.
std::string fitted(std::string_view text, int width);

/// As shorten_middle, for tensor names: parts between dots give way from the left, but numbers
/// (layer, expert) and the last two parts stay if they can: "...12...q_proj.weight".
std::string shorten_name(std::string_view name, int width);

}  // namespace microscale
