#include "checkpoint/config_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> changed_by_converters{
    "quantization_config", "compression_config", "quantization", "torch_dtype", "dtype"};

std::string shown(const Json* value) {
  constexpr std::size_t longest = 60;
  if (!value) return "not there";
  std::string text = dump_config(*value);
  text.erase(std::remove(text.begin(), text.end(), '\n'), text.end());
  return text.size() <= longest ? text : "another value";
}

void compare(const Json& config, const Json& original, const std::string& path,
             std::vector<std::string>& differences) {
  const auto skipped = [](const std::string& key) {
    return std::find(changed_by_converters.begin(), changed_by_converters.end(), key) !=
           changed_by_converters.end();
  };
  const auto look_at = [&](const std::string& key) {
    const auto own = config.find(key), other = original.find(key);
    const Json* one = own == config.end() ? nullptr : &*own;
    const Json* two = other == original.end() ? nullptr : &*other;
    if (one && two && one->is_object() && two->is_object()) {
      return compare(*one, *two, path + key + ".", differences);
    }
    if (one && two && *one == *two) return;
    differences.push_back(
        fmt::format("{}{} is {}, and {} in the original", path, key, shown(one), shown(two)));
  };
  for (const auto& [key, value] : original.items()) {
    if (!skipped(key)) look_at(key);
  }
  for (const auto& [key, value] : config.items()) {
    if (!skipped(key) && !original.contains(key)) look_at(key);
  }
}

}  // namespace

std::vector<std::string> config_differences(std::string_view config_text,
                                            std::string_view original_text) {
  const auto config = parse_config(config_text), original = parse_config(original_text);
  std::vector<std::string> differences;
  if (!config || !original || !config.value().is_object() || !original.value().is_object()) {
    return differences;
  }
  compare(config.value(), original.value(), "", differences);
  return differences;
}

}  // namespace microscale
