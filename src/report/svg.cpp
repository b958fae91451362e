// Heat map, size bars, the palette, and the escaping all markup goes through.
#include "report/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/svg_text.hpp"
#include "report/utf8.hpp"

namespace microscale {
namespace {

constexpr int levels = 10;  // colours of the sequential scale
constexpr double cell_height = 24;

int level_of(double value, double low, double high, Scale scale) {
  if (scale == Scale::logarithmic) {
    value = std::log(value);
    low = std::log(low);
    high = std::log(high);
  }
  if (!(high > low)) return levels / 2;
  const double position = (value - low) / (high - low);
  return std::clamp(static_cast<int>(position * levels), 0, levels - 1);
}

bool drawable(double value, Scale scale) {
  return std::isfinite(value) && (scale == Scale::linear || value > 0);
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    at += point.bytes;
    switch (point.value) {
      case U'&':
        out += "&amp;";
        break;
      case U'<':
        out += "&lt;";
        break;
      case U'>':
        out += "&gt;";
        break;
      case U'"':
        out += "&quot;";
        break;
      case U'\'':
        out += "&#39;";
        break;
      default:
        if (point.value >= 0x20 && point.value < 0x7F) {
          out += static_cast<char>(point.value);
        } else if (point.value == '\n') {
          out += '\n';
        } else {
          const bool shown = point.valid && !is_control(point.value);
          out += fmt::format("&#{};", shown ? static_cast<std::uint32_t>(point.value) : 0xFFFDu);
        }
    }
  }
  return out;
}

std::string_view svg_style() {
  // The scale runs from near the background to far from it, its lightness in even steps, so it
  // reads without colour vision and in grey print.
  return R"(:root{--ms-c0:#eaf1f7;--ms-c1:#d3e4ef;--ms-c2:#b5d5e6;--ms-c3:#90c2dc;--ms-c4:#68abcf;
--ms-c5:#3b81b3;--ms-c6:#2d6ca4;--ms-c7:#24558f;--ms-c8:#1f4079;--ms-c9:#1c275c;
--ms-t0:#1c2430;--ms-t1:#ffffff;--ms-text:#1c2430;--ms-muted:#5b6673;--ms-line:#dde3ea;--ms-bar:#2f75ac;
--ms-p0:#2f75ac;--ms-p1:#d9962b;--ms-p2:#9aa6b3;--ms-p3:#8468b0}
@media (prefers-color-scheme:dark){:root{--ms-c0:#1c2836;--ms-c1:#1d3a52;--ms-c2:#204e6e;--ms-c3:#27658a;
--ms-c4:#357da3;--ms-c5:#5197b5;--ms-c6:#79b0bf;--ms-c7:#a5c8c2;--ms-c8:#d0dfc0;--ms-c9:#f6f3bd;
--ms-t0:#f2f5f8;--ms-t1:#10161d;--ms-text:#e3e8ee;--ms-muted:#97a3b0;--ms-line:#2b3541;--ms-bar:#5197b5;
--ms-p0:#4f94c4;--ms-p1:#e0a94a;--ms-p2:#6d7a88;--ms-p3:#a48ccc}}
svg.ms{display:block;width:100%;height:auto;font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
svg.ms text{fill:var(--ms-text)}svg.ms .m{fill:var(--ms-muted)}
svg.ms .e{text-anchor:end}svg.ms .c{text-anchor:middle}svg.ms .b{font-weight:600}
svg.ms line{stroke:var(--ms-line);stroke-width:1}svg.ms .bar{fill:var(--ms-bar)}
svg.ms rect.hit{fill:transparent}svg.ms g:hover .bar{fill:var(--ms-p1)}
svg.ms rect.cell:hover{stroke:var(--ms-text)}
svg.ms .curve{fill:none;stroke:var(--ms-bar);stroke-width:2;stroke-linejoin:round}
svg.ms .dot{fill:var(--ms-p2)}svg.ms .dot.strong{fill:var(--ms-p1)}
svg.ms .c0{fill:var(--ms-c0)}svg.ms .c1{fill:var(--ms-c1)}svg.ms .c2{fill:var(--ms-c2)}
svg.ms .c3{fill:var(--ms-c3)}svg.ms .c4{fill:var(--ms-c4)}svg.ms .c5{fill:var(--ms-c5)}
svg.ms .c6{fill:var(--ms-c6)}svg.ms .c7{fill:var(--ms-c7)}svg.ms .c8{fill:var(--ms-c8)}
svg.ms .c9{fill:var(--ms-c9)}svg.ms .t0{fill:var(--ms-t0)}svg.ms .t1{fill:var(--ms-t1)}
svg.ms .p0{fill:var(--ms-p0)}svg.ms .p1{fill:var(--ms-p1)}svg.ms .p2{fill:var(--ms-p2)}
svg.ms .p3{fill:var(--ms-p3)}svg.ms text.t0,svg.ms text.t1{pointer-events:none})";
}

std::string render(const HeatMap& map) {
  const std::size_t columns = map.columns.size();
  double label_width = 0;
  for (const std::string& row : map.rows) label_width = std::max(label_width, text_width(row) + 10);
  const double wanted = columns == 0 ? 0 : 820.0 / static_cast<double>(columns);
  const double cell = std::clamp(wanted, 16.0, 72.0);
  const double grid_height = cell_height * static_cast<double>(map.rows.size());
  const double legend_width = 12 + 18.0 * levels + text_width(map.legend_low) +
                              text_width(map.legend_high) + text_width(map.legend_title) + 32;
  const double width =
      std::max(label_width + cell * static_cast<double>(columns) + 2, legend_width);
  const double height = grid_height + 78;

  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const double value : map.values) {
    if (!drawable(value, map.scale)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }

  // Texts are shown in all cells or in none.
  double widest_text = 0;
  for (const std::string& text : map.texts) widest_text = std::max(widest_text, text_width(text));
  const bool texts_shown = !map.texts.empty() && widest_text + 4 <= cell;

  // Wide pictures scroll inside their container rather than shrink past reading.
  std::string out = open_svg(width, height, map.label, width * 0.92, width * 1.15);
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    const double y = cell_height * static_cast<double>(r);
    out += svg_text(label_width - 8, y + 16, "e", map.rows[r]);
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t at = r * columns + c;
      const double value = map.values[at];
      const double x = label_width + cell * static_cast<double>(c);
      if (std::isnan(value)) continue;
      const bool in_scale = drawable(value, map.scale);
      const int level = in_scale    ? level_of(value, low, high, map.scale)
                        : value > 0 ? levels - 1  // infinite
                                    : 0;          // zero on a logarithmic scale
      out += fmt::format(
          R"(<rect class="cell c{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2">)",
          level, x + 0.5, y + 0.5, cell - 1, cell_height - 1);
      if (at < map.tooltips.size()) out += "<title>" + escape_markup(map.tooltips[at]) + "</title>";
      out += "</rect>";
      if (texts_shown && at < map.texts.size()) {
        out += svg_text(x + cell / 2, y + 16, level < levels / 2 ? "c t0" : "c t1", map.texts[at]);
      }
    }
    out += '\n';
  }

  double widest = 0;
  for (const std::string& column : map.columns) widest = std::max(widest, text_width(column));
  const std::size_t step = label_step(columns, cell, widest + 6);
  for (std::size_t c = 0; c < columns; c += step) {
    out += svg_text(label_width + cell * (static_cast<double>(c) + 0.5), grid_height + 14, "c m",
                    map.columns[c]);
  }
  out += svg_text(label_width + cell * static_cast<double>(columns) / 2, grid_height + 30, "c m",
                  map.column_title);

  double x = 2;
  const double y = grid_height + 52;
  out += svg_text(x, y + 11, "m", map.legend_title);
  x += text_width(map.legend_title) + 12;
  out += svg_text(x, y + 11, "", map.legend_low);
  x += text_width(map.legend_low) + 6;
  for (int level = 0; level < levels; ++level, x += 18) {
    out += fmt::format(R"(<rect class="c{}" x="{:.1f}" y="{:.1f}" width="18" height="14"/>)", level,
                       x, y);
  }
  out += svg_text(x + 6, y + 11, "", map.legend_high);
  return out + "</svg>";
}

std::string render(const SizeBars& sizes) {
  constexpr double width = 440, bar_height = 26, row_height = 56;
  double before = 0, after = 0;
  for (const SizePart& part : sizes.parts) {
    before += part.before;
    after += part.after;
  }
  const double full = std::max({before, after, 1e-300});
  std::string out = open_svg(width, 2 * row_height + 22, sizes.label, 0, 560);
  const auto bar = [&](double y, const char* title, const std::string& total,
                       double SizePart::*size, std::string SizePart::*text) {
    out += svg_text(0, y + 12, "m", title);
    out += svg_text(width, y + 12, "e b", total);
    double x = 0;
    for (std::size_t p = 0; p < sizes.parts.size(); ++p) {
      const SizePart& part = sizes.parts[p];
      const double length = width * (part.*size) / full;
      if (length <= 0) continue;
      out +=
          fmt::format(R"(<rect class="p{}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.0f}">)",
                      p % 4, x, y + 18, std::max(length - 0.5, 0.5), bar_height);
      out += "<title>" + escape_markup(part.label + ": " + part.*text) + "</title></rect>";
      x += length;
    }
  };
  bar(0, "before", sizes.before_text, &SizePart::before, &SizePart::before_text);
  bar(row_height, "after", sizes.after_text, &SizePart::after, &SizePart::after_text);
  double x = 0;
  for (std::size_t p = 0; p < sizes.parts.size(); ++p) {
    const SizePart& part = sizes.parts[p];
    const std::string text = part.label + " " + part.after_text;
    out += fmt::format(R"(<rect class="p{}" x="{:.1f}" y="{:.1f}" width="10" height="10" rx="2"/>)",
                       p % 4, x, 2 * row_height + 6);
    out += svg_text(x + 15, 2 * row_height + 15, "m", text);
    x += 15 + text_width(text) + 16;
  }
  return out + "</svg>";
}

}  // namespace microscale
