// SVG elements as text, and how much room text takes.
#include "report/svg_text.hpp"

#include <fmt/format.h>

#include "report/svg.hpp"
#include "report/terminal.hpp"

namespace microscale {

std::string open_svg(double width, double height, std::string_view label, double least,
                     double most) {
  return fmt::format(
      R"(<svg class="ms" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {:.0f} {:.0f}" )"
      R"(role="img" aria-label="{}" style="min-width:{:.0f}px;max-width:{:.0f}px">)"
      "\n",
      width, height, escape_markup(label), least, most);
}

std::string svg_text(double x, double y, std::string_view classes, std::string_view text) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>)", x, y, classes,
                     escape_markup(text));
}

double text_width(std::string_view text) { return 6.3 * display_width(text); }

std::size_t label_step(std::size_t count, double column, double label) {
  std::size_t step = 1;
  for (std::size_t unit = 1;; unit *= 10) {
    for (const std::size_t factor : {1, 2, 5}) {
      step = unit * factor;
      if (static_cast<double>(step) * column >= label || step >= count) return step;
    }
  }
}

}  // namespace microscale
