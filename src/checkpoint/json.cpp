#include "checkpoint/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;
using Kind = JsonEvent::Kind;

// Between nlohmann's parser and a sink: the checks that the grammar leaves out.
class StrictEvents : public nlohmann::json_sax<Json> {
 public:
  StrictEvents(std::string_view text, const JsonSink& sink, int max_depth)
      : text_(text), sink_(sink), max_depth_(max_depth) {}

  const std::string& problem() const { return problem_; }

  bool null() override { return pass({.kind = Kind::null}); }
  bool boolean(bool value) override { return pass({.kind = Kind::boolean, .boolean = value}); }
  bool number_integer(number_integer_t value) override {
    return pass({.kind = Kind::negative_integer, .negative_integer = value});
  }
  bool number_unsigned(number_unsigned_t value) override {
    return pass({.kind = Kind::unsigned_integer, .unsigned_integer = value});
  }
  bool number_float(number_float_t value, const string_t&) override {
    return pass({.kind = Kind::real, .real = value});
  }
  bool string(string_t& value) override {
    if (value.find('\0') != std::string::npos) return stop("a string holds a NUL character");
    return pass({.kind = Kind::string, .text = &value});
  }
  bool binary(binary_t&) override { return stop("binary data is not JSON"); }

  bool start_object(std::size_t) override { return enter() && pass({.kind = Kind::begin_object}); }
  bool start_array(std::size_t) override { return enter() && pass({.kind = Kind::begin_array}); }
  bool end_object() override {
    open_.pop_back();
    return pass({.kind = Kind::end_object});
  }
  bool end_array() override {
    open_.pop_back();
    return pass({.kind = Kind::end_array});
  }
  bool key(string_t& value) override {
    if (value.find('\0') != std::string::npos) return stop("a key holds a NUL character");
    Open& object = open_.back();
    const auto [position, is_new] = object.keys.insert(value);
    if (!is_new) return stop(fmt::format("the key {} appears twice", in_quotes(value)));
    object.current = &*position;
    return pass({.kind = Kind::key, .text = &value});
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...".
    std::string what = error.what();
    if (const auto bracket = what.find("] "); bracket != std::string::npos) {
      what.erase(0, bracket + 2);
    }
    if (const auto last_read = what.find("; last read"); last_read != std::string::npos) {
      what.erase(last_read);
    }
    // Python's json module writes these; `position` is just behind their first letter.
    const std::string_view rest = text_.substr(std::min(position ? position - 1 : 0, text_.size()));
    if (rest.starts_with("Infinity") || rest.starts_with("NaN"))
      what = "Infinity and NaN are not JSON";
    problem_ = fmt::format("it is not valid JSON at byte {} ({})", position, what);
    return false;
  }

 private:
  struct Open {  // an object or array that has not ended
    std::unordered_set<std::string> keys;
    const std::string* current = nullptr;  // the key whose value is being read
  };

  bool enter() {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      return stop(fmt::format("it is nested deeper than {} levels", max_depth_));
    }
    open_.emplace_back();
    return true;
  }

  bool pass(const JsonEvent& event) {
    if (auto problem = sink_(event)) {
      problem_ = std::move(*problem);
      return false;
    }
    return true;
  }

  // Adds where we are: the keys of the open objects. The innermost is left out when it is the
  // culprit.
  bool stop(std::string problem) {
    std::string where;
    for (const Open& level : open_) {
      if (&level != &open_.back() && level.current) where += "/" + *level.current;
    }
    problem_ = where.empty() ? std::move(problem)
                             : fmt::format("{} inside {}", problem, in_quotes(where.substr(1)));
    return false;
  }

  const std::string_view text_;
  const JsonSink& sink_;
  const int max_depth_;
  std::vector<Open> open_;
  std::string problem_;
};

// Builds a tree from events. Objects are appended to without a search: the keys are known to
// differ.
class TreeBuilder {
 public:
  std::optional<std::string> add(const JsonEvent& event) {
    switch (event.kind) {
      case Kind::null:
        place(nullptr);
        break;
      case Kind::boolean:
        place(event.boolean);
        break;
      case Kind::unsigned_integer:
        place(event.unsigned_integer);
        break;
      case Kind::negative_integer:
        place(event.negative_integer);
        break;
      case Kind::real:
        place(event.real);
        break;
      case Kind::string:
        place(std::move(*event.text));
        break;
      case Kind::key:
        key_ = std::move(*event.text);
        break;
      case Kind::begin_object:
        open_.push_back(place(Json::object()));
        break;
      case Kind::begin_array:
        open_.push_back(place(Json::array()));
        break;
      case Kind::end_object:
      case Kind::end_array:
        open_.pop_back();
        break;
    }
    return std::nullopt;
  }

  Json& root() { return root_; }

 private:
  // Only the innermost open value grows, so pointers to the outer ones stay valid.
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    auto& members = parent.get_ref<Json::object_t&>();
    static_cast<Json::object_t::Container&>(members).emplace_back(std::move(key_),
                                                                  std::move(value));
    return &members.back().second;
  }

  Json root_;
  std::vector<Json*> open_;
  std::string key_;
};

}  // namespace

Status read_json(std::string_view text, const JsonSink& sink, int max_depth) {
  // nlohmann takes a NUL byte for the end of the text and skips a byte-order mark.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return Failure{ErrorCode::bad_input, fmt::format("it is not JSON: byte {} is NUL", nul)};
  }
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    return Failure{ErrorCode::bad_input, "it begins with a byte-order mark; save it without one"};
  }
  StrictEvents events(text, sink, max_depth);
  if (!Json::sax_parse(text.begin(), text.end(), &events)) {
    return Failure{ErrorCode::bad_input, events.problem()};
  }
  return success();
}

Result<nlohmann::ordered_json> parse_json(std::string_view text, int max_depth) {
  TreeBuilder builder;
  Status status = read_json(
      text, [&](const JsonEvent& event) { return builder.add(event); }, max_depth);
  if (!status) return status.failure();
  return std::move(builder.root());
}

std::string in_quotes(std::string_view name) {
  std::size_t shown = std::min<std::size_t>(name.size(), 200);
  const bool shortened = shown < name.size();
  // Back to the start of a UTF-8 character.
  while (shortened && shown > 0 && (name[shown] & 0xC0) == 0x80) --shown;
  std::string text = "'";
  for (const char c : name.substr(0, shown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '\'' || c == '\\') text += '\\';
      text += c;
    }
  }
  if (shortened) text += "...";
  return text + "'";
}

}  // namespace microscale
