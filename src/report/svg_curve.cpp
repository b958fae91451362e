// Lines over a linear axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/svg.hpp"
#include "report/svg_axis.hpp"
#include "report/svg_text.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

constexpr double width = 560, height = 280;
constexpr double left = 52, right = 14, top = 24, bottom = 40;
constexpr double plot_width = width - left - right, plot_height = height - top - bottom;
constexpr double text_height = 13;

bool drawable(const CurvePoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) && point.y > 0;
}

// Where texts stand already: the next goes above or below.
struct Box {
  double x0, y0, x1, y1;
  bool meets(const Box& other) const {
    return x0 < other.x1 && other.x0 < x1 && y0 < other.y1 && other.y0 < y1;
  }
};

// A place for a text beside (x, y) within the plot that meets none of the others.
Box place_text(double x, double y, double wide, const std::vector<Box>& taken) {
  const double begin = x + 8 + wide > width - right ? x - 8 - wide : x + 8;
  Box box{begin, y - text_height + 4, begin + wide, y + 4};
  for (int i = 0; i < 12; ++i) {
    const double shift = (i % 2 ? -1 : 1) * text_height * ((i + 1) / 2);
    const Box moved{box.x0, box.y0 + shift, box.x1, box.y1 + shift};
    const bool inside = moved.y0 >= top && moved.y1 <= top + plot_height;
    const bool free = std::none_of(taken.begin(), taken.end(),
                                   [&](const Box& other) { return moved.meets(other); });
    if (inside && free) return moved;
  }
  return box;
}

}  // namespace

std::string render(const Curve& curve) {
  double x_least = HUGE_VAL, x_most = -HUGE_VAL, y_least = HUGE_VAL, y_most = 0;
  const auto see = [&](const CurvePoint& point) {
    if (!drawable(point)) return;
    x_least = std::min(x_least, point.x);
    x_most = std::max(x_most, point.x);
    y_least = std::min(y_least, point.y);
    y_most = std::max(y_most, point.y);
  };
  for (const CurvePoint& point : curve.line) see(point);
  for (const MarkedPoint& mark : curve.marks) see(mark.at);
  if (!(y_most > 0)) return {};
  const Axis across = linear_axis(x_least, x_most), up = logarithmic_axis(y_least, y_most);
  const auto x_of = [&](double x) {
    return left + plot_width * (x - across.low) / (across.high - across.low);
  };
  const auto y_of = [&](double logarithm) {
    return top + plot_height * (1 - (logarithm - up.low) / (up.high - up.low));
  };

  std::string out = open_svg(width, height, curve.label, 0, 720);
  out += svg_text(0, 12, "m", curve.y_title);
  for (const double tick : up.ticks) {
    out += fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", left,
                       y_of(tick), width - right, y_of(tick));
    out += svg_text(left - 6, y_of(tick) + 4, "e m", format_percent(std::pow(10, tick), 3));
  }
  for (const double tick : across.ticks)
    out += svg_text(x_of(tick), top + plot_height + 15, "c m", format_number(tick));
  std::string path;
  for (const CurvePoint& point : curve.line) {
    if (!drawable(point)) continue;
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_of(point.x),
                        y_of(std::log10(point.y)));
  }
  if (!path.empty()) out += fmt::format(R"(<path class="curve" d="{}"/>)", path);
  std::vector<Box> taken;
  // The strong one first: others make room for its text.
  for (const bool strong : {true, false}) {
    for (const MarkedPoint& mark : curve.marks) {
      if (mark.strong != strong || !drawable(mark.at)) continue;
      const double x = x_of(mark.at.x), y = y_of(std::log10(mark.at.y));
      const Box box = place_text(x, y, text_width(mark.text), taken);
      taken.push_back(box);
      taken.push_back({x - 5, y - 5, x + 5, y + 5});
      out += fmt::format(R"(<g><circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}"/>)",
                         strong ? "dot strong" : "dot", x, y, strong ? 5 : 4);
      if (!mark.tooltip.empty()) out += "<title>" + escape_markup(mark.tooltip) + "</title>";
      out += "</g>" + svg_text(box.x0, box.y1 - 4, strong ? "b" : "m", mark.text);
    }
  }
  out += svg_text(left + plot_width / 2, height - 6, "c m", curve.x_title);
  return out + "</svg>";
}

}  // namespace microscale
