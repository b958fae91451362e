// Pictures as inline SVG, coloured by the CSS variables of svg_style(): one text for light and
// dark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace microscale {

/// Text for HTML and SVG, in elements and in quoted attributes: & < > " ' as entities, other
/// non-ASCII as numeric entities, broken UTF-8 and control characters as U+FFFD.
std::string escape_markup(std::string_view text);

/// CSS that the pictures need, once a page: palette, text, dark mode.
std::string_view svg_style();

enum class Scale { linear, logarithmic };

/// rows x columns of coloured cells under a colour legend.
struct HeatMap {
  std::string label = {};  ///< of the whole picture, for screen readers
  std::vector<std::string> rows = {};
  std::vector<std::string> columns = {};
  std::string column_title = {};        ///< under the columns: "layer"
  std::vector<double> values = {};      ///< row by row; NaN: no cell. Logarithmic needs values > 0
  std::vector<std::string> texts = {};  ///< shown in the cells if all are wide enough; may be empty
  std::vector<std::string> tooltips = {};  ///< may be empty
  Scale scale = Scale::linear;
  std::string legend_low = {};  ///< at the ends of the legend: "0.61 %"
  std::string legend_high = {};
  std::string legend_title = {};
};
std::string render(const HeatMap& map);

struct Bar {
  std::string label = {};  ///< below the bar; as many are shown as there is room
  double value = 0;
  std::string tooltip = {};
};
/// A histogram. A logarithmic axis starts below the smallest value that is not zero.
struct BarChart {
  std::string label = {};
  std::vector<Bar> bars = {};
  std::string x_title = {};
  std::string y_title = {};
  Scale scale = Scale::linear;
};
std::string render(const BarChart& chart);

struct CurvePoint {
  double x = 0;
  double y = 0;  ///< above 0
};
struct MarkedPoint {
  CurvePoint at = {};
  std::string text = {};     ///< beside it
  std::string tooltip = {};  ///< may be empty
  bool strong = false;       ///< the one that the picture is about
};
/// A line over a linear axis, its values on a logarithmic one, and points beside it.
struct Curve {
  std::string label = {};  ///< of the whole picture, for screen readers
  std::vector<CurvePoint> line = {};
  std::vector<MarkedPoint> marks = {};
  std::string x_title = {};
  std::string y_title = {};
};
std::string render(const Curve& curve);

struct SizePart {
  std::string label = {};  ///< legend entry: "codes", "scales", "copied"
  double before = 0;
  double after = 0;
  std::string before_text = {};  ///< "90.9 MB"
  std::string after_text = {};
};
/// Two bars on one scale, before above after, each stacked of the parts.
struct SizeBars {
  std::string label = {};
  std::vector<SizePart> parts = {};  ///< at most 4
  std::string before_text = {};      ///< at the end of each bar
  std::string after_text = {};
};
std::string render(const SizeBars& sizes);

}  // namespace microscale
