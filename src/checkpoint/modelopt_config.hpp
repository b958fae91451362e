// How ModelOpt describes a quantized model: in quantization_config of config.json, or in a file of
// its own, hf_quant_config.json. An algorithm for the whole model, or one for each layer by name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "checkpoint/quantization_config.hpp"
#include "core/result.hpp"

namespace microscale {

inline constexpr const char* modelopt_file = "hf_quant_config.json";

/// Adds groups, ignore list, cache scheme and problems from `json`: quant_algo, quantized_layers,
/// exclude_modules or ignore, kv_cache_quant_algo, at its top or below "quantization".
Status read_modelopt(const nlohmann::ordered_json& json, QuantizationConfig& config);

/// From the text of hf_quant_config.json. A failure says which key is wrong; it does not name the
/// file.
Result<QuantizationConfig> parse_modelopt_file(std::string_view text);

}  // namespace microscale
