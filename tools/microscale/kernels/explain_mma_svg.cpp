// The maps as matrices: every run of elements that a register holds is a box with its lane and
// register.
#include <fmt/format.h>

#include <algorithm>

#include "explain_mma.hpp"
#include "report/svg.hpp"
#include "report/svg_text.hpp"

namespace microscale {
namespace {

namespace tensor = emulator::tensor;
using tensor::MmaShape, tensor::Probed;

constexpr double line_height = 17, label_width = 34, box_width = 78, title_height = 44;

/// One matrix: lines down, positions across, each box `span` positions wide.
class Drawing {
 public:
  void title(double x, double y, const std::string& text) {
    out_ += svg_text(x + 8, y + 14, "b", text) + "\n";
  }
  void line_labels(double x, double y, int lines) {
    for (int line = 0; line < lines; ++line)
      out_ += svg_text(x + label_width - 6, y + title_height + line_height * line + 12, "e m",
                       std::to_string(line)) +
              "\n";
  }
  void position_label(double x, double y, int position, const std::string& text) {
    out_ += svg_text(x + label_width + box_width * (position + 0.5), y + title_height - 6, "c m",
                     text) +
            "\n";
  }
  /// Coloured by the lane's place in its group of four.
  void box(double x, double y, int line, int position, int lane, const std::string& text) {
    constexpr int levels[4] = {1, 3, 6, 8};
    const int level = levels[lane % 4];
    const double left = x + label_width + box_width * position,
                 top = y + title_height + line_height * line;
    out_ +=
        fmt::format(R"(<rect class="c{}" x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}"/>)",
                    level, left, top, box_width - 1, line_height - 1);
    out_ += svg_text(left + box_width / 2, top + 12, level >= 5 ? "c t1" : "c t0", text) + "\n";
  }
  const std::string& text() const { return out_; }

 private:
  std::string out_;
};

struct Block {
  const std::vector<Probed>& map;
  std::string title;
  int lines, span;      // span: elements of a box
  bool line_is_column;  // B: a line is a column, positions run along K
  char unit;            // what the second number of a box is: r register, b byte
};

/// Returns the height used.
double draw(Drawing& drawing, double x, double y, const Block& block) {
  drawing.title(x, y, block.title);
  drawing.line_labels(x, y, block.lines);
  int positions = 0;
  for (const Probed& each : block.map) {
    if (each.at.row < 0) continue;
    const int line = block.line_is_column ? each.at.column : each.at.row;
    const int along = block.line_is_column ? each.at.row : each.at.column;
    positions = std::max(positions, along / block.span + 1);
    if (along % block.span != 0) continue;
    const int second = block.unit == 'r' ? each.slot.reg : each.slot.item;
    drawing.box(x, y, line, along / block.span, each.slot.lane,
                fmt::format("{} {}{}", each.slot.lane, block.unit, second));
  }
  for (int position = 0; position < positions; ++position) {
    const int from = position * block.span;
    drawing.position_label(
        x, y, position,
        block.span > 1 ? fmt::format("{}-{}", from, from + block.span - 1) : std::to_string(from));
  }
  return title_height + line_height * block.lines + 12;
}

}  // namespace

std::string mma_svg(const MmaMaps& maps) {
  const MmaShape& s = maps.shape;
  Drawing drawing;
  double y = 24;
  drawing.title(0, 0, spelling(s));
  drawing.title(0, 18, "box: lane and register (r) or byte (b); colour: lane modulo 4");
  y += 18;
  y += draw(drawing, 0, y,
            {maps.a, fmt::format("A, {}: rows down, k across", name_of(s.a)), s.m,
             items_of(maps, 'a'), false, 'r'});
  y += draw(drawing, 0, y,
            {maps.b, fmt::format("B, {}: columns down, k across", name_of(s.b)), s.n,
             items_of(maps, 'b'), true, 'r'});
  const double d_height =
      draw(drawing, 0, y,
           {maps.d, fmt::format("C and D, {}: rows down, columns across", name_of(s.d)), s.m, 1,
            false, 'r'});
  y += d_height;
  if (s.scale_vector > 0) {
    const double right = label_width + box_width * s.scale_vector + 60;
    const std::string what =
        fmt::format("{}, blocks of {} across", name_of(s.scale), s.k / s.scale_vector);
    const double height =
        draw(drawing, 0, y, {maps.scales_a, "Scales of A: " + what, s.m, 1, false, 'b'});
    draw(drawing, std::max(right, 380.0), y,
         {maps.scales_b, "Scales of B: " + what, s.n, 1, true, 'b'});
    y += height;
  }
  const double width = label_width + box_width * 8 + 8;
  std::string out = open_svg(std::max(width, 780.0), y, spelling(s), 0, 900);
  out += "<style>" + std::string(svg_style()) + "</style>\n" + drawing.text() + "</svg>\n";
  return out;
}

}  // namespace microscale
