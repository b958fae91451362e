#include "checkpoint/tensor_name.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace microscale {
namespace {

constexpr std::array<std::string_view, 5> containers{"layers", "layer", "blocks", "block", "h"};
constexpr std::array<std::string_view, 6> container_endings{"_layers", "_layer",   "_blocks",
                                                            "_block",  "_refiner", "_resblocks"};

bool is_container(std::string_view part) {
  return is_one_of(part, containers) || part == "resblocks" ||
         std::any_of(container_endings.begin(), container_endings.end(),
                     [&](std::string_view ending) { return part.ends_with(ending); });
}

std::optional<std::int64_t> number_in(std::string_view part) {
  std::int64_t number = -1;
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != part.data() + part.size() || number < 0) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::string_view module_of(std::string_view tensor_name) {
  constexpr std::string_view suffix = ".weight";
  if (tensor_name.size() > suffix.size() && tensor_name.ends_with(suffix)) {
    tensor_name.remove_suffix(suffix.size());
  }
  return tensor_name;
}

std::string_view leaf_of(std::string_view module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? module : module.substr(dot + 1);
}

std::string_view parent_of(std::string_view module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : module.substr(0, dot);
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    parts.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool has_part(std::span<const std::string_view> parts, std::span<const std::string_view> words) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return is_one_of(part, words); });
}

std::optional<RepeatedLayer> repeated_layer_of(std::string_view name) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t dot = name.find('.', at);
    if (dot == std::string_view::npos) break;
    const std::size_t next = name.find('.', dot + 1);
    if (next == std::string_view::npos) break;
    if (is_container(name.substr(at, dot - at))) {
      if (const auto number = number_in(name.substr(dot + 1, next - dot - 1))) {
        return RepeatedLayer{name.substr(0, dot), *number, name.substr(0, next),
                             name.substr(next + 1)};
      }
    }
    at = dot + 1;
  }
  return std::nullopt;
}

}  // namespace microscale
