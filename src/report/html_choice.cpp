// The part of the HTML report about a budget.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "report/html_parts.hpp"
#include "report/svg.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

constexpr std::size_t most_rows = 4000;

double bits_of(std::int64_t bytes, std::int64_t weights) {
  return weights > 0 ? 8 * static_cast<double>(bytes) / static_cast<double>(weights)
                     : std::numeric_limits<double>::quiet_NaN();
}

std::uint64_t unsigned_of(std::int64_t count) { return static_cast<std::uint64_t>(count); }

std::string share_table(const ChoiceReport& choice) {
  HtmlTable table("Formats", HtmlTable::Use::read);
  table.column("format", false);
  table.column("layers", true);
  table.column("weights", true);
  table.column("bits a weight", true, "codes and the scales of blocks or rows");
  table.column("error", true,
               choice.by_gradients
                   ? "what it is expected to add to the divergence; 1 % is 0.01 nats"
                   : "of the output as a share of it, summed over the layers");
  const auto add = [&](const std::string& name, std::int64_t layers, std::int64_t weights,
                       double bits, double error) {
    table.begin_row();
    table.text(name);
    table.number(format_count(unsigned_of(layers)), static_cast<double>(layers));
    table.number(format_count(unsigned_of(weights)), static_cast<double>(weights));
    table.number(fmt::format("{:.3f}", bits), bits);
    table.number(format_percent(error), error);
  };
  std::int64_t weights = 0;
  for (const ChoiceShare& share : choice_shares(choice)) {
    weights += share.weights;
    if (share.rows > 0)
      add(share.name, share.layers, share.weights, bits_of(share.bytes, share.weights),
          share.error);
  }
  const ChoicePoint point = chosen_point(choice);
  add("together", choice_layers(choice), weights, point.bits, point.error);
  return table.done();
}

std::string curve_picture(const ChoiceReport& choice) {
  Curve curve;
  curve.label = "Error of the best choices of formats against bits a weight";
  curve.x_title = "bits a weight";
  curve.y_title = "error, summed over the layers";
  for (const ChoicePoint& point : choice.curve) curve.line.push_back({point.bits, point.error});
  const auto mark = [&](const std::string& name, const ChoicePoint& point, bool strong) {
    curve.marks.push_back({{point.bits, point.error},
                           name,
                           fmt::format("{}: {:.3f} bits a weight, error {}", name, point.bits,
                                       format_percent(point.error)),
                           strong});
  };
  mark("chosen", chosen_point(choice), true);
  for (const UniformPoint& uniform : uniform_points(choice))
    mark("all " + uniform.name, uniform.point, false);
  return render(curve);
}

std::string group_table(const ChoiceReport& choice) {
  HtmlTable table("Layers and their formats", HtmlTable::Use::sort);
  table.column("layers", false);
  table.column("format", false);
  table.column("weights", true);
  for (const std::string& name : choice.menu)
    table.column(name, true, "error of the output in this format");
  table.column("instead", false, "what the next smaller and the next larger format would change");
  for (std::size_t i = 0; i < std::min(choice.rows.size(), most_rows); ++i) {
    const ChoiceRow& row = choice.rows[i];
    table.begin_row();
    table.text(row.name, true);
    table.text(choice.menu[row.chosen]);
    table.number(format_count(unsigned_of(row.weights)), static_cast<double>(row.weights));
    for (const double error : row.errors)
      table.number(std::isfinite(error) ? format_percent(error) : "-", error);
    std::string instead;
    for (const ChoiceNeighbour& neighbour : choice_neighbours(row))
      instead += (instead.empty() ? "" : "; ") + in_words(neighbour, choice);
    table.words(instead);
  }
  return table.done();
}

}  // namespace

std::string choice_body(const ModelReport& report) {
  if (!report.choice || report.choice->rows.empty()) return {};
  const ChoiceReport& choice = *report.choice;
  return share_table(choice) + "<div class=\"block\">" + curve_picture(choice) +
         "</div>\n<div class=\"block\">" + group_table(choice) + "</div>\n";
}

}  // namespace microscale
