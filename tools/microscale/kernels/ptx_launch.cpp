#include "ptx_launch.hpp"

#include <cxxabi.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "arguments.hpp"
#include "checkpoint/named_file.hpp"
#include "microscale/error.hpp"
#include "ptx_source.hpp"

namespace microscale {
namespace {

using emulator::Extent;

[[noreturn]] void wrong(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

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

template <class Enum>
Enum choice(const std::string& option, const std::string& text,
            const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    wrong(fmt::format("{} got '{}'{}; choose one of {}", option, text, did_you_mean(text, names),
                      fmt::join(names, ", ")));
  return static_cast<Enum>(found - names.begin());
}

std::size_t argument_of(const PtxLaunch& launch, const std::string& name) {
  for (std::size_t i = 0; i < launch.arguments.size(); ++i)
    if (launch.arguments[i].name == name || fmt::format("{}", i) == name) {
      if (!launch.arguments[i].buffer)
        wrong(fmt::format("--out {}: that argument is a value, not a buffer", name));
      return i;
    }
  wrong(fmt::format(
      "--out names '{}'; name an --arg by the word before its = or by its number from 0", name));
}

// "tiled" of "levels::tiled<32, 1024>(levels::Args)".
std::string_view bare_name(std::string_view readable) {
  const std::string_view name = readable.substr(0, readable.find_first_of("<("));
  const std::size_t scope = name.rfind("::");
  return scope == name.npos ? name : name.substr(scope + 2);
}

std::string whole_name(const emulator::Module& module, const std::string& word) {
  const std::vector<std::string> kernels = module.kernels();
  if (kernels.empty()) wrong("the file has no kernel; name one with a .entry");
  if (word.empty() && kernels.size() == 1) return kernels[0];
  std::vector<std::string> fitting, called;
  for (const std::string& each : kernels) {
    if (each == word) return each;
    if (bare_name(readable(each)) == word) called.push_back(each);
    if (!word.empty() &&
        (each.find(word) != each.npos || readable(each).find(word) != std::string::npos))
      fitting.push_back(each);
  }
  if (called.size() == 1) return called[0];
  if (fitting.size() == 1) return fitting[0];
  std::vector<std::string> names;
  for (const std::string& each : fitting.empty() ? kernels : fitting)
    names.push_back(readable(each));
  if (word.empty())
    wrong(fmt::format("the file has {} kernels; choose one with --kernel: {}", names.size(),
                      fmt::join(names, ", ")));
  wrong(fmt::format("--kernel got '{}', which {}; choose one of {}", word,
                    fitting.empty() ? "no kernel here is called" : "several kernels are called",
                    fmt::join(names, ", ")));
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

/// Values one after the other, each aligned to its size: as PTX lays scalars out, and C a struct.
std::vector<std::uint8_t> packed(const std::vector<KernelArgument>& arguments,
                                 const std::vector<PlacedBuffer>& buffers, std::int64_t wanted) {
  std::vector<std::uint8_t> bytes;
  std::size_t next_buffer = 0, widest = 1;
  for (const KernelArgument& each : arguments) {
    const std::size_t size = each.buffer ? 8 : each.array.bytes.size();
    bytes.resize((bytes.size() + size - 1) / size * size);
    widest = std::max(widest, size);
    if (each.buffer) {
      const std::uint64_t address = buffers[next_buffer++].address;
      const auto* from = reinterpret_cast<const std::uint8_t*>(&address);
      bytes.insert(bytes.end(), from, from + 8);
    } else {
      bytes.insert(bytes.end(), each.array.bytes.begin(), each.array.bytes.end());
    }
  }
  const std::size_t padded = (bytes.size() + widest - 1) / widest * widest;
  if (static_cast<std::int64_t>(padded) == wanted) bytes.resize(padded);  // the end of a struct
  return bytes;
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

}  // namespace

PtxLaunch ptx_launch(const std::string& file, const LaunchWords& words, int threads) {
  PtxLaunch launch;
  launch.path = file;
  launch.kernel = words.kernel;
  launch.target = words.target;
  emulator::LaunchRequest& request = launch.request;
  request.grid = extent_from("--grid", words.grid);
  request.block = extent_from("--block", words.block);
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
    launch.outputs.push_back(
        {argument_of(launch, word.substr(0, equals)), word.substr(equals + 1)});
  }
  return launch;
}

void check_outputs(const PtxLaunch& launch, const std::filesystem::path& page) {
  std::set<std::filesystem::path> taken;
  const auto resolved = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  taken.insert(resolved(launch.path));
  for (const KernelArgument& each : launch.arguments)
    if (!each.file.empty()) taken.insert(resolved(each.file));
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
  const emulator::Module module =
      in_file(launch.path, [&] { return emulator::Module(memory, done.text, launch.target); });
  done.kernel = whole_name(module, launch.kernel);
  done.target = launch.target;
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const KernelArgument& each = launch.arguments[i];
    if (!each.buffer) continue;
    const auto bytes = static_cast<std::int64_t>(each.array.bytes.size());
    const std::uint64_t address = memory.allocate(bytes);
    if (each.written) memory.write(address, each.array.bytes.data(), bytes);
    done.buffers.push_back(
        {each.name.empty() ? fmt::format("arg{}", i) : each.name, address, bytes});
  }
  emulator::LaunchRequest request = launch.request;
  request.kernel = done.kernel;
  const emulator::KernelInfo info = in_file(launch.path, [&] { return module.info(done.kernel); });
  request.arguments = packed(launch.arguments, done.buffers, info.argument_bytes);
  done.report = emulator::launch(memory, module, request);
  for (const PtxLaunch::Output& output : launch.outputs) {
    const auto skipped =
        std::count_if(launch.arguments.begin(),
                      launch.arguments.begin() + static_cast<std::ptrdiff_t>(output.argument),
                      [](const KernelArgument& each) { return each.buffer; });
    const PlacedBuffer& buffer = done.buffers[static_cast<std::size_t>(skipped)];
    Array array = launch.arguments[output.argument].array;
    memory.read(array.bytes.data(), buffer.address, buffer.bytes);
    if (done.report.completed) {
      const std::string missing = unwritten_elements(memory, buffer, array);
      if (!missing.empty()) done.unwritten.push_back(missing);
    }
    write_npy(output.path, array);
  }
  return done;
}

std::string readable(const std::string& kernel) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(kernel.c_str(), nullptr, nullptr, &status), std::free);
  if (status != 0) return kernel;
  std::string text = name.get();
  if (text.starts_with("void ")) text.erase(0, 5);
  // nvcc gives a namespace without a name a number of its own.
  for (const std::string_view nameless : {"(anonymous namespace)::", "_GLOBAL__N__"})
    for (std::size_t at; (at = text.find(nameless)) != text.npos;) {
      const std::size_t end = text.find("::", at);
      text.erase(at, end == text.npos ? text.npos : end + 2 - at);
    }
  return text;
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
  return {{"kind", name_of(finding.kind)},   {"kernel", finding.kernel},
          {"block", finding.block},          {"thread", finding.thread},
          {"ptx_line", finding.ptx_line},    {"source", finding.source},
          {"message", finding.message},      {"count", finding.count},
          {"inlined_at", finding.inlined_at}};
}

}  // namespace microscale
