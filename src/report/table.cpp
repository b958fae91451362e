// Laying out tables: full, shortened, or as paragraphs.
#include "report/table.hpp"

#include <algorithm>
#include <numeric>

#include "microscale/error.hpp"

namespace microscale {
namespace {

constexpr int gap = 2;
constexpr int shortest_shrunk = 20;
constexpr std::string_view bold = "\x1b[1m", dim = "\x1b[2m", normal = "\x1b[0m";

std::string padded(const std::string& text, int width, Align align) {
  const std::string blanks(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
  return align == Align::left ? text + blanks : blanks + text;
}

void end_line(std::string& out) {
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += '\n';
}

std::string repeated(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

std::string_view rule_mark(const TextStyle& style) { return style.boxes ? "\u2500" : "-"; }

/// Appends words to indented lines of at most `width` columns.
class Wrapper {
 public:
  Wrapper(std::string& out, int width) : out_(out), width_(std::max(width, 8)) {}

  /// Keeps `text` on one line if a line can hold it, else breaks it at blanks.
  void add(std::string_view text, int blanks_before) {
    if (indent + display_width(text) <= width_) return place(text, blanks_before);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      place(shorten_middle(text.substr(at, end - at), width_ - indent),
            at == 0 ? blanks_before : 1);
      at = end + 1;
    }
  }

  void newline() {
    if (column_ > 0) end_line(out_);
    column_ = 0;
  }

 private:
  void place(std::string_view text, int blanks_before) {
    const int columns = display_width(text);
    if (column_ > 0 && column_ + blanks_before + columns > width_) newline();
    const int blanks = column_ == 0 ? indent : blanks_before;
    out_.append(static_cast<std::size_t>(blanks), ' ');
    out_ += text;
    column_ += blanks + columns;
  }

  static constexpr int indent = 2;
  std::string& out_;
  int width_;
  int column_ = 0;
};

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() > columns_.size() || columns_.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "Table::add_row: more cells than the table has columns");
  }
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells)});
}

void Table::add_rule() { rows_.push_back({}); }

std::string Table::text(const TextStyle& style) const {
  if (rows_.empty()) return {};
  std::vector<int> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    int width = display_width(printable(columns_[c].title, style.utf8));
    for (const Row& row : rows_) {
      if (row.cells.empty()) continue;
      width = std::max(width, display_width(printable(row.cells[c], style.utf8)));
    }
    widths.push_back(width);
  }
  if (style.width == 0) return grid(style, widths);
  const int gaps = gap * (static_cast<int>(widths.size()) - 1);
  int excess = std::accumulate(widths.begin(), widths.end(), gaps) - style.width;
  while (excess > 0) {  // the widest shrinking column gives way, a column at a time
    int* widest = nullptr;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      if (columns_[c].shrink && (widest == nullptr || widths[c] > *widest)) widest = &widths[c];
    }
    if (widest == nullptr || *widest <= shortest_shrunk) return paragraphs(style);
    --*widest;
    --excess;
  }
  return grid(style, widths);
}

std::string Table::grid(const TextStyle& style, const std::vector<int>& widths) const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) out.append(gap, ' ');
      out += padded(shorten_name(cells[c], widths[c]), widths[c], columns_[c].align);
    }
  };
  const auto rule = [&] {
    const int total =
        std::accumulate(widths.begin(), widths.end(), gap * (static_cast<int>(widths.size()) - 1));
    if (style.colour) out += dim;
    out += repeated(rule_mark(style), total);
    if (style.colour) out += normal;
    out += '\n';
  };
  std::vector<std::string> cells;
  for (const Column& column : columns_) cells.push_back(printable(column.title, style.utf8));
  if (style.colour) out += bold;
  line(cells);
  if (style.colour) out += normal;
  end_line(out);
  rule();
  for (const Row& row : rows_) {
    if (row.cells.empty()) {
      rule();
      continue;
    }
    cells.clear();
    for (const std::string& cell : row.cells) cells.push_back(printable(cell, style.utf8));
    line(cells);
    end_line(out);
  }
  return out;
}

std::string Table::paragraphs(const TextStyle& style) const {
  std::string out;
  for (const Row& row : rows_) {
    if (row.cells.empty()) {
      out += repeated(rule_mark(style), style.width) + '\n';
      continue;
    }
    if (style.colour) out += bold;
    out += shorten_name(printable(row.cells[0], style.utf8), style.width);
    if (style.colour) out += normal;
    end_line(out);
    Wrapper wrapper(out, style.width);
    for (std::size_t c = 1; c < row.cells.size(); ++c) {
      if (row.cells[c].empty()) continue;
      const std::string title = columns_[c].title.empty() ? "" : columns_[c].title + " ";
      wrapper.add(printable(title + row.cells[c], style.utf8), gap + 1);
    }
    wrapper.newline();
  }
  return out;
}

}  // namespace microscale
