// What config.json says of the model itself, not of how it is quantized, against the config.json of
// another folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace microscale {

/// Keys that a converter copies and that differ, as sentences' parts: "rope_theta is 5.0, and
/// 10000.0 in the original". Numbers are compared as they are written. Descriptions of quantized
/// weights and the model's type are not among them. Both are JSON objects.
std::vector<std::string> config_differences(std::string_view config_text,
                                            std::string_view original_text);

}  // namespace microscale
