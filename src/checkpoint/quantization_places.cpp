#include "checkpoint/quantization_places.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/config_json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 2> keys{"quantization_config", "compression_config"};

bool is_config(const std::string& key, const Json& value) {
  return value.is_object() && key.ends_with("_config") && key != keys[0] && key != keys[1];
}

struct Place {
  std::string path;
  const Json* description;
};

// At the top, then within, then by the older name.
std::vector<Place> places_of(const Json& config) {
  std::vector<Place> places;
  for (const char* key : keys) {
    if (const Json* top = member(config, key)) places.push_back({key, top});
    for (const auto& [name, inner] : config.items()) {
      if (!is_config(name, inner)) continue;
      for (Place& place : places_of(inner)) {
        if (place.path.ends_with(key)) {
          places.push_back({name + "." + place.path, place.description});
        }
      }
    }
  }
  // The older form has the description one level down.
  for (Place& place : places) {
    const Json* within =
        place.description->is_object() ? member(*place.description, keys[0]) : nullptr;
    if (within) place.description = within;
  }
  return places;
}

}  // namespace

const Json* find_quantization(const Json& config) {
  const auto places = places_of(config);
  return places.empty() ? nullptr : places.front().description;
}

std::vector<std::string> rival_quantizations(const Json& config) {
  std::vector<std::string> rivals;
  const auto places = places_of(config);
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (*places[i].description != *places.front().description) rivals.push_back(places[i].path);
  }
  return rivals;
}

void drop_quantization(Json& config) {
  for (const char* key : keys) config.erase(key);
  for (auto& [name, inner] : config.items()) {
    if (is_config(name, inner)) drop_quantization(inner);
  }
}

}  // namespace microscale
