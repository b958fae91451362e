// The text of --help, made to fit.
#pragma once

#include <cstddef>
#include <string>

namespace microscale {

inline constexpr std::size_t help_column = 26;  ///< where the descriptions of options begin

/// `text` with lines longer than `width` broken at blanks. A description goes on in its column
/// where the terminal is wide enough for two columns, everything else indented.
std::string wrapped_help(const std::string& text, std::size_t width);

}  // namespace microscale
