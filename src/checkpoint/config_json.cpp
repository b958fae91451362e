#include "checkpoint/config_json.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoint/json.hpp"
#include "checkpoint/quantization_places.hpp"

namespace microscale {
namespace {

// In a text the mark can only be written with this escape, and such a text is refused.
constexpr std::string_view mark = "\\u0001python:";
constexpr std::array<std::string_view, 3> numbers = {"Infinity", "-Infinity", "NaN"};

std::string quoted(std::string_view number) {
  return '"' + std::string(mark) + std::string(number) + '"';
}

// A number that JSON has and that would not be written again as it is here: an integer beyond 64
// bits, more digits than a double has, 1.0E-5. Empty if there is none at `place`, outside of
// strings.
std::string_view unusual_number_at(std::string_view text, std::size_t place) {
  constexpr std::string_view digits = "-+.eE0123456789";
  const bool begins = text[place] == '-' || (text[place] >= '0' && text[place] <= '9');
  if (!begins || (place > 0 && digits.find(text[place - 1]) != digits.npos)) return {};
  const std::size_t end = std::min(text.find_first_not_of(digits, place), text.size());
  const std::string_view number = text.substr(place, end - place);
  const auto value = nlohmann::ordered_json::parse(number, nullptr, false);
  return value.is_number() && value.dump() != number ? number : std::string_view();
}

// The number that begins at `place`, outside of strings; empty if none does. No key is a number.
std::string_view number_at(std::string_view text, std::size_t place) {
  for (std::string_view number : numbers) {
    if (!text.substr(place).starts_with(number)) continue;
    const std::size_t next = text.find_first_not_of(" \t\r\n", place + number.size());
    if (next == std::string_view::npos || text[next] != ':') return number;
  }
  return unusual_number_at(text, place);
}

}  // namespace

Result<nlohmann::ordered_json> parse_config(std::string_view text) {
  if (text.find(mark) != std::string_view::npos)
    return Failure{ErrorCode::bad_input, "a string begins with the control character U+0001"};
  std::string json;
  json.reserve(text.size());
  bool in_string = false;
  for (std::size_t place = 0; place < text.size();) {
    const std::string_view number = in_string ? std::string_view() : number_at(text, place);
    if (!number.empty()) {
      json += quoted(number);
      place += number.size();
      continue;
    }
    const bool escape = in_string && text[place] == '\\';
    if (text[place] == '"') in_string = !in_string;
    const std::size_t taken = std::min<std::size_t>(escape ? 2 : 1, text.size() - place);
    json += text.substr(place, taken);
    place += taken;
  }
  return parse_json(json);
}

std::string dump_config(const nlohmann::ordered_json& config) {
  std::string text = config.dump(2) + "\n";
  const std::string opening = '"' + std::string(mark);
  for (std::size_t at = 0; (at = text.find(opening, at)) != std::string::npos;) {
    const std::size_t end = text.find('"', at + opening.size());
    text.replace(at, end + 1 - at, text.substr(at + opening.size(), end - at - opening.size()));
  }
  return text;
}

Result<std::string> with_quantization(std::string_view config_text,
                                      nlohmann::ordered_json description) {
  auto config = nlohmann::ordered_json::object();
  if (!config_text.empty()) {
    auto parsed = parse_config(config_text);
    if (!parsed) return parsed.failure();
    config = std::move(parsed.value());
  }
  // transformers decompresses to BF16 and then multiplies by inputs of the model's type: one that
  // stays FP32 fails at its first product. Its newer versions write "dtype" where older ones
  // had "torch_dtype", and read both; some files have both.
  const bool newer = config.contains("dtype");
  if (newer) config["dtype"] = "bfloat16";
  if (!newer || config.contains("torch_dtype")) config["torch_dtype"] = "bfloat16";
  drop_quantization(config);
  config["quantization_config"] = std::move(description);
  return dump_config(config);
}

const nlohmann::ordered_json* member(const nlohmann::ordered_json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string text_member(const nlohmann::ordered_json& object, const char* key) {
  const auto* value = member(object, key);
  return value && value->is_string() ? value->get<std::string>() : "";
}

Result<std::vector<std::string>> strings_of(const nlohmann::ordered_json* list,
                                            const std::string& where) {
  std::vector<std::string> found;
  if (!list) return found;
  const auto bad = [&](const char* what) { return Failure{ErrorCode::bad_input, where + what}; };
  if (!list->is_array()) return bad(" is not a list of names");
  for (const auto& item : *list) {
    if (!item.is_string()) return bad(" holds something that is not a name");
    found.push_back(item.get<std::string>());
  }
  return found;
}

}  // namespace microscale
