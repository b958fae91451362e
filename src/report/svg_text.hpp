// Pieces that every picture is put together from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace microscale {

/// Opens a picture of width x height units that grows with its container up to `most` pixels wide
/// and is never drawn narrower than `least` (0: as narrow as the container).
std::string open_svg(double width, double height, std::string_view label, double least,
                     double most);

/// `text` at its baseline; `classes` of svg_style(): e end, c centred, m muted, b bold.
std::string svg_text(double x, double y, std::string_view classes, std::string_view text);

/// Units that `text` takes at 11 px, estimated a little generously: no font is at hand here.
double text_width(std::string_view text);

/// Every how many of `count` columns of width `column` a label of width `label` fits: 1, 2, 5, 10,
/// 20, ...
std::size_t label_step(std::size_t count, double column, double label);

}  // namespace microscale
