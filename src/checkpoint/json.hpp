// Strict JSON, as a tree or as events. Every JSON text this library reads goes through here.
// Beyond the grammar, these are refused: duplicate keys, NUL inside strings or between values,
// byte-order marks, invalid UTF-8, lone surrogates, deeper nesting than allowed, anything after the
// value.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace microscale {

inline constexpr int max_json_depth = 64;

/// One step through a JSON text. Which of the fields means something depends on `kind`.
struct JsonEvent {
  enum class Kind {
    null,
    boolean,
    unsigned_integer,  // digits only
    negative_integer,  // a minus sign, then digits ("-0" too)
    real,              // a fraction, an exponent, or more than 64 bits
    string,
    key,
    begin_object,
    end_object,
    begin_array,
    end_array,
  };
  Kind kind = Kind::null;
  bool boolean = false;
  std::uint64_t unsigned_integer = 0;
  std::int64_t negative_integer = 0;
  double real = 0;
  std::string* text = nullptr;  // of a string or key; may be moved from
};

/// Returns nothing to go on, or what is wrong, which ends the reading.
using JsonSink = std::function<std::optional<std::string>(const JsonEvent&)>;

/// Hands the text to `sink` piece by piece; needs memory for the keys of the open objects only.
Status read_json(std::string_view text, const JsonSink& sink, int max_depth = max_json_depth);

/// The text as a tree that keeps the order of keys. Callers include <nlohmann/json.hpp> themselves.
Result<nlohmann::ordered_json> parse_json(std::string_view text, int max_depth = max_json_depth);

/// A name for a message: in single quotes, shortened, control characters and quotes escaped.
std::string in_quotes(std::string_view name);

}  // namespace microscale
