#include "choice_output.hpp"

#include <fmt/format.h>

#include <cmath>

#include "report/units.hpp"

namespace microscale {
namespace {

std::uint64_t unsigned_of(std::int64_t count) { return static_cast<std::uint64_t>(count); }

std::string error_text(double error) { return std::isfinite(error) ? format_percent(error) : "-"; }

}  // namespace

Table choice_table(const ChoiceReport& choice) {
  std::vector<Column> columns{
      {"layers", Align::left, true}, {"weights", Align::right}, {"format", Align::left}};
  for (const std::string& name : choice.menu) columns.push_back({name, Align::right});
  columns.push_back({"instead", Align::left, true});
  Table table(std::move(columns));
  for (const ChoiceRow& row : choice.rows) {
    std::vector<std::string> cells{row.name, format_count(unsigned_of(row.weights)),
                                   choice.menu[row.chosen]};
    for (const double error : row.errors) cells.push_back(error_text(error));
    std::string instead;
    for (const ChoiceNeighbour& neighbour : choice_neighbours(row))
      instead += (instead.empty() ? "" : "; ") + in_words(neighbour, choice);
    cells.push_back(std::move(instead));
    table.add_row(std::move(cells));
  }
  return table;
}

std::string choice_text(const ChoiceReport& choice, const TextStyle& style) {
  Table table({{"formats", Align::left},
               {"layers", Align::right},
               {"weights", Align::right},
               {"bits a weight", Align::right},
               {"error", Align::right}});
  const auto add = [&](const std::string& name, std::int64_t layers, std::int64_t weights,
                       const ChoicePoint& point) {
    table.add_row({name, format_count(unsigned_of(layers)), format_count(unsigned_of(weights)),
                   fmt::format("{:.3f}", point.bits), error_text(point.error)});
  };
  std::int64_t weights = 0;
  for (const ChoiceShare& share : choice_shares(choice)) {
    weights += share.weights;
    if (share.rows == 0) continue;
    add(share.name, share.layers, share.weights,
        {8 * static_cast<double>(share.bytes) / static_cast<double>(share.weights), share.error});
  }
  table.add_rule();
  add("together", choice_layers(choice), weights, chosen_point(choice));
  for (const UniformPoint& uniform : uniform_points(choice))
    add("all " + uniform.name, choice_layers(choice), weights, uniform.point);
  return fmt::format("Formats chosen for {}:\n{}{}\n", choice.budget, table.text(style),
                     choice_basis(choice));
}

}  // namespace microscale
