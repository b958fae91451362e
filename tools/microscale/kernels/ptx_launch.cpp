#include "ptx_launch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "arguments.hpp"
#include "checkpoint/named_file.hpp"
#include "emulator/kernel_name.hpp"
#include "emulator/kernel_source.hpp"
#include "microscale/error.hpp"
#include "ptx_source.hpp"

namespace microscale {
namespace {

using emulator::Extent;

[[noreturn]] void wrong(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

template <class Enum>
Enum choice(const std::string& option, const std::string& text,
            const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    wrong(fmt::format("{} got '{}'{}; choose one of {}", option, text, did_you_mean(text, names),
                      fmt::join(names, ", ")));
  return static_cast<Enum>(found - names.begin());
}

/// What is wrong with a text is said with the name of its file.
template <class Call>
auto in_file(const std::filesystem::path& path, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path.string(), error.what()));
  }
}

// "o: 32 of 64 elements were never written, the first at 32", or "". What stands there is zero.
std::string unwritten_elements(const emulator::Memory& memory, const PlacedBuffer& buffer,
                               const Array& array) {
  const std::int64_t size = array.elements() ? buffer.bytes / array.elements() : 0;
  std::int64_t count = 0, first = -1;
  for (std::int64_t at = 0; at < buffer.bytes;) {
    const std::int64_t found =
        memory.first_unwritten(buffer.address + static_cast<std::uint64_t>(at), buffer.bytes - at);
    if (found < 0) break;
    const std::int64_t element = (at + found) / size;
    if (count++ == 0) first = element;
    at = (element + 1) * size;
  }
  if (count == 0) return "";
  return fmt::format("{}: {} of {} elements were never written, the first at {}", buffer.name,
                     count, array.elements(), first);
}

// The names of the kernel's parameters, of CUDA source.
std::vector<std::string> names_in_source(const std::filesystem::path& path,
                                         const std::string& kernel) {
  if (path.extension() != ".cu") return {};
  std::ifstream file(path);
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  return emulator::parameter_names(source, emulator::bare_name(emulator::readable_name(kernel)));
}

std::string variable_of(const emulator::Module& module, const std::string& word,
                        std::string_view option) {
  std::vector<std::string> names;
  for (const emulator::ModuleVariable& each : module.variables()) names.push_back(each.name);
  return emulator::variable_of(names, word, option);
}

PtxLaunch::Symbol symbol_from(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == word.npos || equals == 0)
    wrong(
        fmt::format("--symbol got '{}'; it takes NAME=FILE.npy, NAME=f32:1.5 or "
                    "NAME=f32[5]:ones",
                    word));
  const KernelArgument value = kernel_argument(word.substr(equals + 1));
  if (value.array.bytes.empty())
    wrong(fmt::format("--symbol got '{}': a value needs its type, such as s32:3", word));
  return {word.substr(0, equals), value.array};
}

// What a launch left in buffers and variables, and what is asked of it.
class LaunchResults {
 public:
  LaunchResults(const PtxLaunch& launch, const std::vector<NamedArgument>& buffers,
                const emulator::Module& module, const emulator::Memory& memory, PtxLaunched& done)
      : launch_(launch), buffers_(buffers), module_(module), memory_(memory), done_(done) {}

  // Before the launch: whether all that is named is there.
  void check_names() const {
    for (const PtxLaunch::Output& each : launch_.outputs) require(each.name, "--out");
    for (const ResultCheck& each : launch_.checks) require(each.name, "--check");
    for (const ResultPrint& each : launch_.prints) require(each.name, "--print");
  }

  void take() const {
    for (const PtxLaunch::Output& each : launch_.outputs) {
      if (const auto buffer = find(each.name); buffer && done_.report.completed) {
        const std::string missing =
            unwritten_elements(memory_, done_.buffers[*buffer], buffers_[*buffer].argument->array);
        if (!missing.empty()) done_.unwritten.push_back(missing);
      }
      write_npy(each.path, array(each.name));
    }
    for (const ResultCheck& each : launch_.checks) {
      const std::string apart = difference(label(each.name), array(each.name), each);
      if (!apart.empty()) done_.differences.push_back(apart);
    }
    for (const ResultPrint& each : launch_.prints)
      done_.prints.push_back(first_elements(label(each.name), array(each.name), each.count));
  }

 private:
  // A buffer by its name, or the number of its argument.
  std::optional<std::size_t> find(const std::string& name) const {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i].name == name || fmt::format("{}", buffers_[i].number) == name) return i;
    return std::nullopt;
  }

  std::string label(const std::string& name) const {
    const auto buffer = find(name);
    return buffer ? buffers_[*buffer].name : name;
  }

  void require(const std::string& name, const std::string& option) const {
    if (find(name)) return;
    for (std::size_t i = 0; i < launch_.arguments.size(); ++i)
      if (launch_.arguments[i].name == name || fmt::format("{}", i) == name)
        wrong(fmt::format("{} {}: that argument is a value, not a buffer", option, name));
    if (module_.variables().empty())
      wrong(
          fmt::format("{} names '{}'; name an --arg by the word before its = or by its number "
                      "from 0",
                      option, name));
    variable_of(module_, name, option);
  }

  Array array(const std::string& name) const {
    if (const auto buffer = find(name)) {
      Array made = buffers_[*buffer].argument->array;
      memory_.read(made.bytes.data(), done_.buffers[*buffer].address, done_.buffers[*buffer].bytes);
      return made;
    }
    return variable(variable_of(module_, name, "--out"));
  }

  // By the type that --symbol gave, else the PTX's.
  Array variable(const std::string& name) const {
    Array made{.type = ArrayType::u8, .shape = {}, .bytes = {}};
    for (const emulator::ModuleVariable& each : module_.variables()) {
      if (each.name != name) continue;
      made.bytes.resize(static_cast<std::size_t>(each.bytes));
      const std::string word = each.type[0] == 'b' ? "u" + each.type.substr(1) : each.type;
      if (const auto type = array_type(word)) made.type = *type;
    }
    for (const PtxLaunch::Symbol& each : launch_.symbols)
      if (variable_of(module_, each.name, "--symbol") == name) made.type = each.value.type;
    made.shape = {static_cast<std::int64_t>(made.bytes.size() / bytes_of(made.type))};
    module_.read_variable(name, made.bytes.data(), static_cast<std::int64_t>(made.bytes.size()));
    return made;
  }

  const PtxLaunch& launch_;
  const std::vector<NamedArgument>& buffers_;
  const emulator::Module& module_;
  const emulator::Memory& memory_;
  PtxLaunched& done_;
};

}  // namespace

Extent extent_from(const std::string& option, const std::string& text) {
  std::vector<std::uint32_t> parts;
  for (const char *at = text.data(), *end = at + text.size(); at <= end;) {
    std::uint32_t part = 0;
    const auto read = std::from_chars(at, end, part);
    if (read.ec != std::errc{} || (read.ptr != end && *read.ptr != ',') || parts.size() == 3)
      wrong(fmt::format("{} got '{}'; it takes X, X,Y or X,Y,Z", option, text));
    parts.push_back(part);
    at = read.ptr + 1;
  }
  parts.resize(3, 1);
  return {parts[0], parts[1], parts[2]};
}

PtxLaunch ptx_launch(const std::string& file, const LaunchWords& words, int threads) {
  PtxLaunch launch;
  launch.path = file;
  launch.kernel = words.kernel;
  launch.target = words.target;
  emulator::LaunchRequest& request = launch.request;
  request.grid = extent_from("--grid", words.grid);
  if (!words.block.empty()) request.block = extent_from("--block", words.block);
  request.cluster = extent_from("--cluster", words.cluster);
  request.dynamic_shared_bytes = shared_bytes_from(words.shared);
  request.options.schedule =
      choice<emulator::Schedule>("--schedule", words.schedule, choices_of("SCHEDULE"));
  request.options.completion =
      choice<emulator::Completion>("--completion", words.completion, choices_of("COMPLETION"));
  request.options.seed =
      static_cast<std::uint64_t>(integer_from("--seed", words.seed, 0, INT64_MAX));
  request.options.threads = threads;
  if (!words.budget.empty())
    request.options.instruction_budget = static_cast<std::uint64_t>(
        integer_from("--budget", words.budget, 1, std::int64_t{1} << 62));
  for (const std::string& word : words.arguments) launch.arguments.push_back(kernel_argument(word));
  for (const std::string& word : words.outputs) {
    const std::size_t equals = word.find('=');
    if (equals == word.npos) wrong(fmt::format("--out got '{}'; it takes NAME=FILE.npy", word));
    launch.outputs.push_back({word.substr(0, equals), word.substr(equals + 1)});
  }
  for (const std::string& word : words.symbols) launch.symbols.push_back(symbol_from(word));
  for (const std::string& word : words.checks) launch.checks.push_back(result_check(word));
  for (const std::string& word : words.prints) launch.prints.push_back(result_print(word));
  if (!words.suppress.empty()) launch.suppressions = read_suppressions(words.suppress);
  launch.findings_code = static_cast<int>(integer_from("--exit-code", words.exit_code, 0, 255));
  return launch;
}

void check_outputs(const PtxLaunch& launch, const std::filesystem::path& page) {
  std::set<std::filesystem::path> taken;
  const auto resolved = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  taken.insert(resolved(launch.path));
  for (const NamedArgument& each : buffers_of(launch.arguments, {}))
    if (!each.argument->file.empty()) taken.insert(resolved(each.argument->file));
  for (const ResultCheck& each : launch.checks) taken.insert(resolved(each.file));
  const auto check = [&](const char* option, const std::filesystem::path& path) {
    if (!taken.insert(take(place_of_named_file(path))).second)
      wrong(fmt::format("{} names {}, which is read or written already; name another file", option,
                        path.string()));
  };
  for (const PtxLaunch::Output& each : launch.outputs) check("--out", each.path);
  if (!page.empty()) check("--html", page);
}

PtxLaunched perform(const PtxLaunch& launch) {
  PtxLaunched done;
  done.text = ptx_text(launch.path, launch.target);
  emulator::Memory memory;
  emulator::Module module =
      in_file(launch.path, [&] { return emulator::Module(memory, done.text, launch.target); });
  done.kernel = emulator::kernel_of(module.kernels(), launch.kernel, "--kernel");
  done.target = launch.target;
  const std::vector<NamedArgument> buffers =
      buffers_of(launch.arguments, names_in_source(launch.path, done.kernel));
  const LaunchResults results(launch, buffers, module, memory, done);
  results.check_names();
  for (const NamedArgument& each : buffers) {
    const Array& array = each.argument->array;
    const auto bytes = static_cast<std::int64_t>(array.bytes.size());
    const std::uint64_t address = memory.allocate(bytes, each.name);
    if (each.argument->written) memory.write(address, array.bytes.data(), bytes);
    done.buffers.push_back({each.name, address, bytes});
  }
  for (const PtxLaunch::Symbol& each : launch.symbols)
    module.write_variable(variable_of(module, each.name, "--symbol"), each.value.bytes.data(),
                          static_cast<std::int64_t>(each.value.bytes.size()));
  emulator::LaunchRequest request = launch.request;
  request.kernel = done.kernel;
  const emulator::KernelInfo info = in_file(launch.path, [&] { return module.info(done.kernel); });
  request.arguments = parameter_bytes(info, launch.arguments, done.buffers);
  done.report = emulator::launch(memory, module, request);
  done.suppressed = suppress(done.report.findings, launch.suppressions);
  results.take();
  return done;
}

std::string shape_words(const emulator::LaunchRequest& request) {
  const auto triple = [](const Extent& extent) {
    std::string text = fmt::format("{}", extent.x);
    if (extent.y > 1 || extent.z > 1) text += fmt::format(" x {}", extent.y);
    if (extent.z > 1) text += fmt::format(" x {}", extent.z);
    return text;
  };
  const auto counted = [&triple](const Extent& extent, const char* what) {
    const bool one = std::uint64_t{extent.x} * extent.y * extent.z == 1;
    return fmt::format("{} {}{}", triple(extent), what, one ? "" : "s");
  };
  std::string text =
      fmt::format("{} of {}", counted(request.grid, "block"), counted(request.block, "thread"));
  const Extent& cluster = request.cluster;
  if (cluster.x * cluster.y * cluster.z > 1)
    text += fmt::format(", clusters of {}", triple(cluster));
  if (request.dynamic_shared_bytes)
    text += fmt::format(", {} bytes of dynamic shared memory", request.dynamic_shared_bytes);
  return text;
}

nlohmann::ordered_json to_json(const emulator::Finding& finding) {
  return {{"kind", name_of(finding.kind)},    {"kernel", finding.kernel},
          {"block", finding.block},           {"thread", finding.thread},
          {"ptx_line", finding.ptx_line},     {"source", finding.source},
          {"message", finding.message},       {"count", finding.count},
          {"inlined_at", finding.inlined_at}, {"address", finding.address},
          {"access", finding.access},         {"object", finding.object},
          {"cuda", cuda_words(finding)},      {"cure", cure_of(finding)}};
}

}  // namespace microscale
