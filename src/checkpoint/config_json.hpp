// config.json as Python writes it: JSON, and the numbers Infinity, -Infinity and NaN, which JSON
// has not and Python's json module reads and writes (Mamba and Granite models have such limits).
// Integers of any size and floats keep their text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace microscale {

/// The text as a tree. Those numbers become strings that no other text makes; see dump_config.
Result<nlohmann::ordered_json> parse_config(std::string_view text);

/// A tree of parse_config as text again, two spaces a level, those numbers as they were.
std::string dump_config(const nlohmann::ordered_json& config);

/// `config_text` (empty: none) with that as its quantization_config and the model's type
/// (torch_dtype, or dtype where that stands) set to bfloat16, what loaders decompress to; every
/// other key stays.
Result<std::string> with_quantization(std::string_view config_text,
                                      nlohmann::ordered_json description);

/// The member `key` of an object; null where it is absent or JSON's null.
const nlohmann::ordered_json* member(const nlohmann::ordered_json& object, const char* key);

/// The member if it is a string; otherwise empty.
std::string text_member(const nlohmann::ordered_json& object, const char* key);

/// A list of strings; none for null. A failure names `where`.
Result<std::vector<std::string>> strings_of(const nlohmann::ordered_json* list,
                                            const std::string& where);

}  // namespace microscale
