#include "checkpoint/statistics_metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

const std::string* find(const SafetensorsMetadata& metadata, std::string_view key) {
  const auto found =
      std::ranges::find_if(metadata, [&](const auto& entry) { return entry.first == key; });
  return found == metadata.end() ? nullptr : &found->second;
}

}  // namespace

Result<std::optional<StatisticsMetadata>> read_statistics_metadata(
    const SafetensorsMetadata& metadata) {
  const std::string* version = find(metadata, "microscale_statistics");
  if (!version) return std::optional<StatisticsMetadata>{};
  if (*version != "1") {
    return Failure{ErrorCode::unsupported,
                   fmt::format("its metadata say version {} of microscale_statistics; this program "
                               "reads version 1",
                               in_quotes(*version))};
  }
  std::optional<StatisticsMetadata> found(std::in_place);
  found->shrunk = find(metadata, "shrunk") != nullptr;
  found->by_gradients = find(metadata, "gradients") != nullptr;
  if (const std::string* shares = find(metadata, "shares")) {
    const Failure bad{ErrorCode::bad_input,
                      "\"shares\" in its metadata is no object of names of modules"};
    const auto tree = parse_config(*shares);
    if (!tree || !tree.value().is_object()) return bad;
    for (const auto& [module, owner] : tree.value().items()) {
      if (!owner.is_string()) return bad;
      found->shares.emplace(module, owner.get<std::string>());
    }
  }
  if (const std::string* tokens = find(metadata, "tokens")) {
    const Failure bad{ErrorCode::bad_input, "\"tokens\" in its metadata is no object of counts"};
    const auto tree = parse_config(*tokens);
    if (!tree || !tree.value().is_object()) return bad;
    for (const auto& [module, count] : tree.value().items()) {
      if (!count.is_number_unsigned()) return bad;
      found->tokens.emplace(module, count.get<std::int64_t>());
    }
  }
  return found;
}

}  // namespace microscale
