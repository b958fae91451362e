#include "emulator/ptx/module.hpp"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "emulator/ptx/body.hpp"
#include "emulator/ptx/declaration.hpp"
#include "emulator/ptx/names.hpp"
#include "emulator/ptx/reader.hpp"

namespace microscale::emulator::ptx {
namespace {

constexpr std::size_t max_text_bytes = std::size_t{1} << 31;

struct BodyPlace {
  std::size_t offset = 0;  // of the byte behind `{`
  std::uint32_t line = 0;
};

}  // namespace

struct Module::State {
  std::string text;
  Version version;
  std::string_view target;
  int address_size = 64;
  std::vector<std::string_view> files;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<BodyPlace> bodies;  // by function
  ModuleNames names;
  std::mutex parsing;
};

namespace {

// Reads the top level into the parts of a State.
template <class State>
class TopLevel {
 public:
  explicit TopLevel(State& state) : reader_(state.text), state_(state) {}

  Status parse() {
    while (!reader_.failed() && reader_.now().kind != Token::Kind::end) directive();
    if (!reader_.failed() && state_.version == Version{})
      reader_.fail(reader_.now(), "no .version");
    if (!reader_.failed() && state_.target.empty()) reader_.fail(reader_.now(), "no .target");
    if (reader_.failed()) return reader_.failure();
    return success();
  }

 private:
  bool directive() {
    const Token at = reader_.now();
    if (reader_.accept(';')) return true;
    if (at.kind == Token::Kind::word) return label();
    if (at.kind != Token::Kind::dot) return reader_.unexpected("a directive such as .entry");
    if (at.text == "version") return version();
    if (at.text == "target") return target();
    if (at.text == "address_size") return address_size();
    if (at.text == "file") return file();
    if (at.text == "section") return section();
    if (at.text == "pragma") return pragma() && reader_.expect(';', "behind .pragma");
    return declaration();
  }

  // A label between sections of debug information.
  bool label() {
    reader_.advance();
    return reader_.expect(':', "behind a label");
  }

  bool version() {
    reader_.advance();
    const Token at = reader_.now();  // "9.0" is cut as one decimal number
    const std::size_t dot = at.text.find('.');
    if (at.kind != Token::Kind::decimal || dot > 3 || at.text.size() > dot + 3) {
      return reader_.unexpected("a version such as 9.0");
    }
    for (std::size_t i = 0; i < at.text.size(); ++i) {
      if (i == dot) continue;
      if (at.text[i] < '0' || at.text[i] > '9') return reader_.unexpected("a version such as 9.0");
      int& part = i < dot ? state_.version.major : state_.version.minor;
      part = part * 10 + (at.text[i] - '0');
    }
    reader_.advance();
    return true;
  }

  bool target() {
    reader_.advance();
    if (!reader_.word(state_.target, "a target such as sm_90a")) return false;
    std::string_view option;  // debug, texmode_independent
    while (reader_.accept(','))
      if (!reader_.word(option, "an option of .target")) return false;
    return true;
  }

  bool address_size() {
    reader_.advance();
    const Token at = reader_.now();
    std::int64_t bits = 0;
    if (!reader_.integer(bits, "32 or 64")) return false;
    if (bits != 64) {
      return reader_.fail(at, fmt::format("only .address_size 64 is supported, got {}", bits),
                          ErrorCode::unsupported);
    }
    return true;
  }

  // .file 1 "path"[, timestamp, size]
  bool file() {
    reader_.advance();
    const Token at = reader_.now();
    std::int64_t number = 0, ignored = 0;
    std::string_view path;
    if (!reader_.count(number, UINT32_MAX, "a file number")) return false;
    if (!reader_.string(path, "behind .file")) return false;
    while (reader_.accept(','))
      if (!reader_.integer(ignored, "a time or size")) return false;
    if (state_.files.size() >= UINT16_MAX) return reader_.fail(at, "more than 65535 files");
    state_.files.push_back(path);
    state_.names.files[number] = static_cast<std::uint16_t>(state_.files.size());
    return true;
  }

  bool section() {
    reader_.advance();
    if (reader_.now().kind != Token::Kind::dot && reader_.now().kind != Token::Kind::word) {
      return reader_.unexpected("the name of a section");
    }
    reader_.advance();
    if (!reader_.now().is('{')) return reader_.unexpected("'{' behind .section");
    return reader_.skip_braces();
  }

  bool pragma() {
    reader_.advance();
    std::string_view ignored;
    do {
      if (!reader_.string(ignored, "behind .pragma")) return false;
    } while (reader_.accept(','));
    return true;
  }

  // A variable or a function with what says who sees it.
  bool declaration() {
    bool external = false, visible = false;
    for (;;) {
      const Token at = reader_.now();
      if (at.kind != Token::Kind::dot) return reader_.unexpected("a variable or a function");
      if (at.text == "entry" || at.text == "func") return function(at, visible);
      const auto space = space_of(at.text);
      if (space && *space != Space::param && *space != Space::local) {
        reader_.advance();
        return variables(*space, external);
      }
      if (at.text == "extern") {
        external = true;
      } else if (at.text == "visible" || at.text == "weak" || at.text == "common") {
        visible = true;
      } else {
        return reader_.fail(
            at, fmt::format("the directive {} is not known", quoted('.' + std::string(at.text))));
      }
      reader_.advance();
    }
  }

  bool variables(Space space, bool external) {
    const Token at = reader_.now();
    const std::size_t first = state_.variables.size();
    if (!read_variables(reader_, space, external, false, state_.variables)) return false;
    for (std::size_t i = first; i < state_.variables.size(); ++i) {
      const ModuleNames::Entry entry{false, static_cast<std::uint32_t>(i)};
      if (!state_.names.names.emplace(state_.variables[i].name, entry).second) {
        return reader_.fail(at,
                            fmt::format("{} is declared twice", quoted(state_.variables[i].name)));
      }
    }
    return reader_.expect(';', "behind a variable");
  }

  bool function(const Token& at, bool visible) {
    Function function;
    function.entry = at.text == "entry";
    function.visible = visible;
    function.line = at.line;
    reader_.advance();
    std::int64_t end = 0;
    if (!function.entry && reader_.now().is('(') && !read_params(reader_, function.results, end))
      return false;
    const Token name = reader_.now();
    if (!reader_.word(function.name, "the name of a function")) return false;
    end = 0;
    if (reader_.now().is('(') && !read_params(reader_, function.params, end)) return false;
    if (!function_directives(function)) return false;
    BodyPlace place;
    if (reader_.now().is('{')) {
      function.has_body = true;
      place = {reader_.position(), reader_.now().line};
      if (!reader_.skip_braces()) return false;
    } else if (!reader_.expect(';', "or a body behind the head of a function")) {
      return false;
    }
    const ModuleNames::Entry entry{true, static_cast<std::uint32_t>(state_.functions.size())};
    const auto [known, is_new] = state_.names.names.emplace(function.name, entry);
    if (is_new) {
      state_.functions.push_back(std::move(function));
      state_.bodies.push_back(place);
      return true;
    }
    if (!known->second.is_function) {
      return reader_.fail(name, fmt::format("{} is declared twice", quoted(name.text)));
    }
    Function& before = state_.functions[known->second.index];
    const bool same = before.entry == function.entry &&
                      before.params.size() == function.params.size() &&
                      before.results.size() == function.results.size();
    if (!same || (before.has_body && function.has_body)) {
      return reader_.fail(name, fmt::format("{} is declared twice", quoted(name.text)));
    }
    if (function.has_body) {
      before = std::move(function);
      state_.bodies[known->second.index] = place;
    }
    return true;
  }

  bool extent(Extent& extent) {
    constexpr std::int64_t limit = INT32_MAX;
    extent = {0, 1, 1};
    if (!reader_.count(extent.x, limit, "a number of threads or blocks")) return false;
    if (reader_.accept(',') && !reader_.count(extent.y, limit, "a number of threads or blocks"))
      return false;
    return !reader_.accept(',') || reader_.count(extent.z, limit, "a number of threads or blocks");
  }

  bool function_directives(Function& function) {
    while (reader_.now().kind == Token::Kind::dot) {
      const Token at = reader_.now();
      std::int64_t ignored = 0;
      bool good = true;
      if (at.text == "pragma") {
        good = pragma();
        if (good) reader_.accept(';');
        if (!good) return false;
        continue;
      }
      reader_.advance();
      if (at.text == "maxntid") {
        good = extent(function.max_threads);
      } else if (at.text == "reqntid") {
        good = extent(function.required_threads);
      } else if (at.text == "reqnctapercluster") {
        good = extent(function.required_cluster);
      } else if (at.text == "minnctapersm") {
        good = reader_.count(function.min_blocks, INT32_MAX, "a number of blocks");
      } else if (at.text == "maxnreg") {
        good = reader_.count(function.max_registers, INT32_MAX, "a number of registers");
      } else if (at.text == "maxnctapersm" || at.text == "maxclusterrank") {
        good = reader_.count(ignored, INT32_MAX, "a number of blocks");
      } else if (at.text == "explicitcluster") {
        function.explicit_cluster = true;
      } else if (at.text != "noreturn" && at.text != "blocksareclusters") {
        return reader_.fail(at, fmt::format("the directive {} is not known for a function",
                                            quoted('.' + std::string(at.text))));
      }
      if (!good) return false;
    }
    return true;
  }

  Reader reader_;
  State& state_;
};

}  // namespace

Module::Module(std::unique_ptr<State> state) : state_(std::move(state)) {}
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;
Module::~Module() = default;

Result<Module> Module::parse(std::string text) {
  if (text.size() > max_text_bytes) {
    return Failure{ErrorCode::unsupported,
                   fmt::format("PTX of {} bytes; at most 2 GiB are read", text.size())};
  }
  auto state = std::make_unique<State>();
  state->text = std::move(text);
  const Status read = TopLevel<State>(*state).parse();
  if (!read) return read.failure();
  state->names.functions = &state->functions;
  state->names.variables = &state->variables;
  return Module(std::move(state));
}

Version Module::version() const { return state_->version; }
std::string_view Module::target() const { return state_->target; }
int Module::address_size() const { return state_->address_size; }
const std::vector<std::string_view>& Module::files() const { return state_->files; }
const std::vector<Variable>& Module::variables() const { return state_->variables; }
const std::vector<Function>& Module::functions() const { return state_->functions; }

std::optional<std::size_t> Module::find(std::string_view function) const {
  const auto found = state_->names.names.find(function);
  if (found == state_->names.names.end() || !found->second.is_function) return std::nullopt;
  return found->second.index;
}

std::optional<std::size_t> Module::find_variable(std::string_view name) const {
  const auto found = state_->names.names.find(name);
  if (found == state_->names.names.end() || found->second.is_function) return std::nullopt;
  return found->second.index;
}

Result<const Function*> Module::body(std::size_t index) const {
  if (index >= state_->functions.size()) {
    return Failure{ErrorCode::invalid_argument,
                   fmt::format("the module has {} functions, asked for number {}",
                               state_->functions.size(), index)};
  }
  const std::lock_guard lock(state_->parsing);
  Function& function = state_->functions[index];
  if (function.parsed) return &function;
  if (!function.has_body) {
    return Failure{ErrorCode::unsupported, fmt::format("PTX line {}: {} is declared without a body",
                                                       function.line, quoted(function.name))};
  }
  Function parsed = function;
  const BodyPlace place = state_->bodies[index];
  const Status read = parse_body(state_->text, place.offset, place.line, state_->names, parsed);
  if (!read) return read.failure();
  function = std::move(parsed);
  return &function;
}

}  // namespace microscale::emulator::ptx
