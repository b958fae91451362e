// Tables for the terminal that fit its width.
#pragma once

#include <string>
#include <vector>

#include "report/terminal.hpp"
#include "report/units.hpp"

namespace microscale {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
  bool shrink = false;  ///< may be shortened in the middle to make the table fit: names, paths
};

/// Rows of cells under titled columns. Where the table is wider than the terminal, shrinking
/// columns give way down to 20 columns each; if that is not enough, each row becomes a small
/// paragraph (first cell on its own line, the others below it as "title value"), so no figure is
/// lost at 40 columns.
class Table {
 public:
  explicit Table(std::vector<Column> columns);

  /// Missing cells are empty; more cells than columns throw Error{invalid_argument}.
  void add_row(std::vector<std::string> cells);
  /// A line across, before the next row: before a total.
  void add_rule();
  bool empty() const { return rows_.empty(); }

  /// The table with a newline at the end of every line and no trailing blanks. No rows: empty.
  std::string text(const TextStyle& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;  // empty: a rule
  };

  std::string grid(const TextStyle& style, const std::vector<int>& widths) const;
  std::string paragraphs(const TextStyle& style) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace microscale
