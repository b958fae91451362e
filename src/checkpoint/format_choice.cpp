#include "checkpoint/format_choice.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/fused_experts.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/weight_format.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view as_it_is = "bf16";

Json errors_json(const std::vector<double>& errors) {
  Json json = Json::array();
  for (const double error : errors) json.push_back(std::isfinite(error) ? Json(error) : Json());
  return json;
}

GroupFormats group_from(const Json& json, std::size_t lines) {
  GroupFormats group;
  group.name = json.at("name");
  group.layers = json.at("layers");
  group.weights = json.at("weights");
  for (const Json& error : json.at("errors")) {
    group.errors.push_back(error.is_null() ? std::numeric_limits<double>::infinity()
                                           : error.get<double>());
  }
  group.bytes = json.at("bytes").get<std::vector<std::int64_t>>();
  group.chosen = json.at("chosen");
  if (group.errors.size() != lines || group.bytes.size() != lines || group.chosen >= lines ||
      !std::isfinite(group.errors[group.chosen])) {
    throw std::runtime_error(group.name + " has another menu");
  }
  return group;
}

}  // namespace

std::string_view menu_name(MenuFormat format) { return format ? to_string(*format) : as_it_is; }

std::optional<MenuFormat> parse_menu_format(std::string_view name) {
  if (name == as_it_is) return MenuFormat();
  const auto format = parse_weight_format(name);
  return format ? std::optional<MenuFormat>(*format) : std::nullopt;
}

std::int64_t FormatChoice::bytes() const {
  std::int64_t sum = 0;
  for (const GroupFormats& group : groups) sum += group.bytes[group.chosen];
  return sum;
}

std::int64_t FormatChoice::weights() const {
  std::int64_t sum = 0;
  for (const GroupFormats& group : groups) sum += group.weights;
  return sum;
}

std::int64_t FormatChoice::layers() const {
  std::int64_t sum = 0;
  for (const GroupFormats& group : groups) sum += group.layers;
  return sum;
}

double FormatChoice::bits() const {
  return groups.empty() ? 0 : 8 * static_cast<double>(bytes()) / static_cast<double>(weights());
}

double FormatChoice::error() const {
  double sum = 0;
  for (const GroupFormats& group : groups) sum += group.errors[group.chosen];
  return sum;
}

std::string in_words(const std::vector<MenuFormat>& menu) {
  std::string text;
  for (std::size_t i = 0; i < menu.size(); ++i) {
    text += i == 0 ? "" : i + 1 == menu.size() ? " and " : ", ";
    text += menu_name(menu[i]);
  }
  return text;
}

std::string in_words(const Budget& budget) {
  const std::string size = budget.bits ? fmt::format("{} bits a weight", *budget.bits)
                                       : fmt::format("{} bytes in all", budget.bytes.value_or(0));
  return fmt::format("at most {}, of {}", size, in_words(budget.menu));
}

std::string choice_group_of(std::string_view tensor_name) {
  if (fused_expert_part(tensor_name)) return std::string(experts_module_of(tensor_name));
  const std::string_view module = module_of(tensor_name);
  if (const auto experts = expert_layer_of(module)) return std::string(*experts);
  return fused_group_of(module).value_or(std::string(module));
}

std::string to_text(const FormatChoice& choice) {
  Json json;
  json["budget"] = choice.budget;
  Json& menu = json["menu"] = Json::array();
  for (const MenuFormat format : choice.menu) menu.push_back(menu_name(format));
  json["weighted_layers"] = choice.weighted_layers;
  json["by_gradients"] = choice.by_gradients;
  Json& groups = json["groups"] = Json::array();
  for (const GroupFormats& group : choice.groups) {
    groups.push_back({{"name", group.name},
                      {"layers", group.layers},
                      {"weights", group.weights},
                      {"errors", errors_json(group.errors)},
                      {"bytes", group.bytes},
                      {"chosen", group.chosen}});
  }
  return json.dump();
}

Result<FormatChoice> choice_from(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed) return parsed.failure();
  FormatChoice choice;
  try {
    const Json& json = parsed.value();
    choice.budget = json.at("budget");
    for (const Json& name : json.at("menu")) {
      const auto format = parse_menu_format(name.get<std::string>());
      if (!format) throw std::runtime_error("it names a format that is none");
      choice.menu.push_back(*format);
    }
    choice.weighted_layers = json.at("weighted_layers");
    choice.by_gradients = json.at("by_gradients");
    for (const Json& group : json.at("groups"))
      choice.groups.push_back(group_from(group, choice.menu.size()));
  } catch (const std::exception& error) {  // of nlohmann: a value of another kind
    return Failure{ErrorCode::bad_input,
                   fmt::format("the choice of formats is damaged ({})", error.what())};
  }
  return choice;
}

}  // namespace microscale
