#include "report/choice_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "report/units.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

double bits_of(std::int64_t bytes, std::int64_t weights) {
  return weights > 0 ? 8 * static_cast<double>(bytes) / static_cast<double>(weights) : 0;
}

std::int64_t weights_of(const ChoiceReport& choice) {
  std::int64_t weights = 0;
  for (const ChoiceRow& row : choice.rows) weights += row.weights;
  return weights;
}

template <class LineOf>
ChoicePoint point_of(const ChoiceReport& choice, const LineOf& line_of) {
  ChoicePoint point;
  std::int64_t bytes = 0;
  for (const ChoiceRow& row : choice.rows) {
    bytes += row.bytes[line_of(row)];
    point.error += row.errors[line_of(row)];
  }
  point.bits = bits_of(bytes, weights_of(choice));
  return point;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

ChoicePoint chosen_point(const ChoiceReport& choice) {
  return point_of(choice, [](const ChoiceRow& row) { return row.chosen; });
}

std::int64_t choice_layers(const ChoiceReport& choice) {
  std::int64_t layers = 0;
  for (const ChoiceRow& row : choice.rows) layers += row.layers;
  return layers;
}

std::vector<UniformPoint> uniform_points(const ChoiceReport& choice) {
  std::vector<UniformPoint> points;
  for (std::size_t line = 0; line < choice.menu.size(); ++line) {
    const ChoicePoint point = point_of(choice, [&](const ChoiceRow&) { return line; });
    if (std::isfinite(point.error)) points.push_back({choice.menu[line], point});
  }
  return points;
}

std::vector<ChoiceShare> choice_shares(const ChoiceReport& choice) {
  std::vector<ChoiceShare> shares;
  for (const std::string& name : choice.menu) shares.push_back({name});
  for (const ChoiceRow& row : choice.rows) {
    ChoiceShare& share = shares[row.chosen];
    ++share.rows;
    share.layers += row.layers;
    share.weights += row.weights;
    share.bytes += row.bytes[row.chosen];
    share.error += row.errors[row.chosen];
  }
  return shares;
}

std::vector<ChoiceNeighbour> choice_neighbours(const ChoiceRow& row) {
  std::optional<ChoiceNeighbour> smaller, larger;
  const auto ratio = [](const ChoiceNeighbour& n) {
    return n.error / static_cast<double>(n.bytes);
  };
  for (std::size_t line = 0; line < row.errors.size(); ++line) {
    const ChoiceNeighbour neighbour{line, row.bytes[line] - row.bytes[row.chosen],
                                    row.errors[line] - row.errors[row.chosen]};
    if (!std::isfinite(neighbour.error)) continue;
    // Error goes up as bytes go down: both ratios are negative.
    if (neighbour.bytes < 0 && (!smaller || ratio(neighbour) > ratio(*smaller)))
      smaller = neighbour;
    if (neighbour.bytes > 0 && neighbour.error < 0 &&
        (!larger || ratio(neighbour) < ratio(*larger)))
      larger = neighbour;
  }
  std::vector<ChoiceNeighbour> neighbours;
  if (smaller) neighbours.push_back(*smaller);
  if (larger) neighbours.push_back(*larger);
  return neighbours;
}

std::string in_words(const ChoiceNeighbour& neighbour, const ChoiceReport& choice) {
  return fmt::format("{}: {} {} for {} {}", choice.menu[neighbour.line],
                     format_percent(std::fabs(neighbour.error)),
                     neighbour.error < 0 ? "less" : "more",
                     format_bytes(static_cast<std::uint64_t>(std::abs(neighbour.bytes))),
                     neighbour.bytes < 0 ? "less" : "more");
}

std::string choice_basis(const ChoiceReport& choice) {
  const std::int64_t layers = choice_layers(choice);
  if (choice.by_gradients) {
    return "Errors are what they are expected to add to the model's divergence, by the gradients "
           "at "
           "the layers' outputs: 1 % is 0.01 nats a token.";
  }
  if (choice.weighted_layers == layers)
    return "Errors are those of the layers' outputs, under the mean squares of their inputs.";
  if (choice.weighted_layers == 0) {
    return "Errors are those of the weights, as no statistics of inputs were given "
           "(--importance, --calibrate); by these the choice is better.";
  }
  return fmt::format(
      "Errors are those of the layers' outputs, under the mean squares of their inputs; of {} of "
      "{} "
      "layers, which have no statistics, those of the weights.",
      layers - choice.weighted_layers, layers);
}

std::string to_json(const ChoiceReport& choice) {
  Json json;
  const ChoicePoint point = chosen_point(choice);
  json["budget"] = choice.budget;
  json["bits"] = point.bits;
  json["error"] = number(point.error);
  json["menu"] = choice.menu;
  json["layers"] = choice_layers(choice);
  json["weighted_layers"] = choice.weighted_layers;
  json["by_gradients"] = choice.by_gradients;
  for (const ChoiceShare& share : choice_shares(choice)) {
    json["formats"][share.name] = {{"groups", share.rows},
                                   {"layers", share.layers},
                                   {"weights", share.weights},
                                   {"bytes", share.bytes},
                                   {"error", number(share.error)}};
  }
  Json& groups = json["groups"] = Json::array();
  for (const ChoiceRow& row : choice.rows) {
    Json& group = groups.emplace_back();
    group["name"] = row.name;
    group["layers"] = row.layers;
    group["weights"] = row.weights;
    group["format"] = choice.menu[row.chosen];
    group["bits"] = bits_of(row.bytes[row.chosen], row.weights);
    for (std::size_t line = 0; line < choice.menu.size(); ++line) {
      group["errors"][choice.menu[line]] = number(row.errors[line]);
      group["bytes"][choice.menu[line]] = row.bytes[line];
    }
  }
  for (const UniformPoint& uniform : uniform_points(choice)) {
    json["uniform"].push_back({{"format", uniform.name},
                               {"bits", uniform.point.bits},
                               {"error", number(uniform.point.error)}});
  }
  Json& curve = json["curve"] = Json::array();
  for (const ChoicePoint& each : choice.curve)
    curve.push_back({{"bits", each.bits}, {"error", number(each.error)}});
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace microscale
