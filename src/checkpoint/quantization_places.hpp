// Where in config.json the description of a quantization may stand: loaders look at the top level,
// then in the config of the language model, then for the older name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace microscale {

/// The description that loaders take of a config.json, an object; null where there is none.
const nlohmann::ordered_json* find_quantization(const nlohmann::ordered_json& config);

/// Where else one stands that says another: "text_config.quantization_config".
std::vector<std::string> rival_quantizations(const nlohmann::ordered_json& config);

/// Removes it from every place.
void drop_quantization(nlohmann::ordered_json& config);

}  // namespace microscale
