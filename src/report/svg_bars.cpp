// Histograms.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "report/svg.hpp"
#include "report/svg_axis.hpp"
#include "report/svg_text.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

constexpr double width = 440, height = 210;
constexpr double left = 44, right = 6, top = 22, bottom = 38;
constexpr double plot_width = width - left - right;
constexpr double plot_height = height - top - bottom;

}  // namespace

std::string render(const BarChart& chart) {
  double least = HUGE_VAL, most = 0;
  for (const Bar& bar : chart.bars) {
    if (bar.value > 0) least = std::min(least, bar.value);
    most = std::max(most, bar.value);
  }
  const bool logarithmic = chart.scale == Scale::logarithmic && most > 0;
  const Axis axis = logarithmic ? logarithmic_axis(least, most) : linear_axis(most);
  const auto height_of = [&](double value) {
    if (!(value > 0)) return 0.0;
    const double position = logarithmic ? std::log10(value) : value;
    return plot_height * std::clamp((position - axis.low) / (axis.high - axis.low), 0.0, 1.0);
  };

  std::string out = open_svg(width, height, chart.label, 0, 720);
  out += svg_text(0, 11, "m", chart.y_title);
  const double floor_y = top + plot_height;
  for (const double tick : axis.ticks) {
    const double y = floor_y - plot_height * (tick - axis.low) / (axis.high - axis.low);
    out += fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", left, y,
                       width - right, y);
    out += svg_text(left - 6, y + 4, "e m", format_number(logarithmic ? std::pow(10, tick) : tick));
  }
  const std::size_t count = chart.bars.size();
  const double pitch = count == 0 ? plot_width : plot_width / static_cast<double>(count);
  const double gap = pitch > 6 ? pitch * 0.18 : pitch > 3 ? 1 : 0;
  double widest = 0;
  for (const Bar& bar : chart.bars) widest = std::max(widest, text_width(bar.label));
  const std::size_t step = label_step(count, pitch, widest + 4);
  for (std::size_t i = 0; i < count; ++i) {
    const Bar& bar = chart.bars[i];
    const double x = left + pitch * static_cast<double>(i);
    // What occurs at all is at least a hair high. The whole column answers the pointer.
    const double tall = bar.value > 0 ? std::max(height_of(bar.value), 1.0) : 0;
    out += fmt::format(
        R"(<g><rect class="hit" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}"/>)", x, top,
        pitch, plot_height);
    out +=
        fmt::format(R"(<rect class="bar" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/>)",
                    x + gap / 2, floor_y - tall, pitch - gap, tall);
    if (!bar.tooltip.empty()) out += "<title>" + escape_markup(bar.tooltip) + "</title>";
    out += "</g>";
    if (i % step == 0) out += svg_text(x + pitch / 2, floor_y + 14, "c m", bar.label);
  }
  out += svg_text(left + plot_width / 2, height - 5, "c m", chart.x_title);
  return out + "</svg>";
}

}  // namespace microscale
