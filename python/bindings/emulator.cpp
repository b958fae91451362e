// The machine that runs PTX, behind microscale.emulator: a module and its memory, addresses in and
// out; how arguments become bytes is Python's (microscale/emulator/_arguments.py).
#ifdef MICROSCALE_HAS_KERNEL_TOOLS

#include "microscale/emulator.hpp"

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "emulator/causes.hpp"
#include "emulator/kernel_name.hpp"
#include "emulator/kernel_source.hpp"
#include "emulator/memory/tensor_map.hpp"
#include "interruptible.hpp"
#include "microscale/error.hpp"
#include "operands.hpp"
#include "ptx_source.hpp"

namespace microscale::python {
namespace {

using Triple = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

struct PtxModule {
  PtxModule(const std::string& text, const std::string& target) : module(memory, text, target) {}
  emulator::Memory memory;
  emulator::Module module;
};

emulator::Extent extent_of(const Triple& triple) {
  return {std::get<0>(triple), std::get<1>(triple), std::get<2>(triple)};
}

template <class Enum>
Enum choice(const char* option, std::string_view name,
            std::initializer_list<std::string_view> names) {
  int index = 0;
  std::string known;
  for (const std::string_view each : names) {
    if (each == name) return static_cast<Enum>(index);
    known += fmt::format("{}{}", index++ ? ", " : "", each);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: there is no '{}'; choose one of {}", option, name, known));
}

nb::list parameters(const PtxModule& self, const std::string& kernel) {
  const emulator::KernelInfo info = self.module.info(kernel);
  auto types = emulator::parameter_types(kernel);
  if (types && types->size() != info.parameters.size()) types.reset();
  nb::list list;
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    const emulator::KernelParameter& each = info.parameters[i];
    nb::dict row;
    row["name"] = each.name;
    row["type"] = each.type;
    row["offset"] = each.offset;
    row["bytes"] = each.bytes;
    row["align"] = each.align;
    row["text"] = types ? (*types)[i].text : std::string();
    row["pointer"] = types && (*types)[i].pointer;
    const auto number = types ? (*types)[i].number : std::nullopt;
    row["word"] = number ? number->word : std::string();
    row["lanes"] = number ? number->lanes : std::int64_t{0};
    list.append(row);
  }
  return list;
}

std::uint64_t allocate(PtxModule& self, std::int64_t bytes, const std::string& name) {
  return self.memory.allocate(bytes, name);
}

void write(PtxModule& self, std::uint64_t address, nb::handle from) {
  const auto bytes = bytes_of(take(from, "from"));
  self.memory.write(address, bytes.data(), std::ssize(bytes));
}

void read(const PtxModule& self, std::uint64_t address, nb::handle into) {
  const auto bytes = bytes_of(take(into, "into", Access::write));
  self.memory.read(bytes.data(), address, std::ssize(bytes));
}

/// `mask`, a byte for each element of `size` bytes, becomes 1 where no byte of it was ever written.
void unwritten(const PtxModule& self, std::uint64_t address, std::int64_t size, nb::handle mask) {
  const auto bytes = bytes_of(take(mask, "mask", Access::write));
  std::ranges::fill(bytes, std::uint8_t{0});
  const std::int64_t all = std::ssize(bytes) * size;
  for (std::int64_t at = 0; at < all;) {
    const std::int64_t found =
        self.memory.first_unwritten(address + static_cast<std::uint64_t>(at), all - at);
    if (found < 0) return;
    const std::int64_t element = (at + found) / size;
    bytes[static_cast<std::size_t>(element)] = 1;
    at = (element + 1) * size;
  }
}

std::string variable_of(const PtxModule& self, const std::string& word) {
  std::vector<std::string> names;
  for (const emulator::ModuleVariable& each : self.module.variables()) names.push_back(each.name);
  return emulator::variable_of(names, word, "symbols");
}

void write_variable(PtxModule& self, const std::string& name, nb::handle from) {
  const auto bytes = bytes_of(take(from, "from"));
  self.module.write_variable(variable_of(self, name), bytes.data(), std::ssize(bytes));
}

void read_variable(const PtxModule& self, const std::string& name, nb::handle into) {
  const auto bytes = bytes_of(take(into, "into", Access::write));
  self.module.read_variable(variable_of(self, name), bytes.data(), std::ssize(bytes));
}

/// The 128 bytes of a tensor map; sizes and box innermost first, strides in bytes.
nb::bytes tensor_map(std::uint64_t address, std::int64_t element_bytes,
                     const std::vector<std::uint64_t>& size,
                     const std::vector<std::uint64_t>& stride,
                     const std::vector<std::uint32_t>& box, int swizzle) {
  emulator::TensorMap map;
  if (size.empty() || size.size() > 5 || stride.size() != size.size() || box.size() != size.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tensor map: an array of {} axes and a box of {}; both have as many, 1 "
                            "to 5",
                            size.size(), box.size()));
  map.rank = static_cast<std::uint32_t>(size.size());
  map.element_bytes = static_cast<std::uint32_t>(element_bytes);
  map.address = address;
  for (std::size_t i = 0; i < size.size(); ++i)
    map.size[i] = size[i], map.stride[i] = stride[i], map.box[i] = box[i];
  map.swizzle =
      choice<emulator::Swizzle>("swizzle", fmt::format("{}", swizzle), {"0", "32", "64", "128"});
  const emulator::TensorMapBytes made = emulator::encode(map);
  return nb::bytes(made.data(), made.size());
}

/// `same_cause`: as the one before it.
nb::dict to_dict(const emulator::Finding& each, bool same_cause) {
  nb::dict row;
  row["kind"] = emulator::name_of(each.kind);
  row["message"] = text_of(each.message);
  row["sentence"] = text_of(emulator::to_sentence(each));
  row["kernel"] = each.kernel;
  row["block"] = nb::make_tuple(each.block[0], each.block[1], each.block[2]);
  row["thread"] = nb::make_tuple(each.thread[0], each.thread[1], each.thread[2]);
  row["ptx_line"] = each.ptx_line;
  row["source"] = text_of(each.source);
  row["inlined_at"] = text_of(each.inlined_at);
  row["address"] = each.address;
  row["access"] = each.access;
  row["object"] = each.object;
  row["cuda_words"] = emulator::cuda_words(each);
  row["cure"] = emulator::cure_of(each);
  row["count"] = each.count;
  row["same_cause"] = same_cause;
  return row;
}

nb::dict to_dict(const emulator::InstructionCount& each) {
  nb::dict row;
  row["ptx_line"] = each.ptx_line;
  row["source"] = text_of(each.source);
  row["opcode"] = each.opcode;
  row["warps"] = each.warps;
  row["lanes"] = each.lanes;
  row["sectors"] = each.sectors;
  row["ideal_sectors"] = each.ideal_sectors;
  row["bank_conflicts"] = each.bank_conflicts;
  row["global_requests"] = each.global_requests;
  row["shared_requests"] = each.shared_requests;
  return row;
}

nb::dict launch(PtxModule& self, const std::string& kernel, const Triple& grid, const Triple& block,
                const Triple& cluster, std::int64_t shared, nb::bytes arguments,
                std::string_view schedule, std::string_view completion, std::uint64_t seed,
                std::uint64_t budget, nb::handle threads, bool races, bool equal_stores_race,
                bool count) {
  emulator::LaunchRequest request;
  request.kernel = kernel;
  request.grid = extent_of(grid);
  request.block = extent_of(block);
  request.cluster = extent_of(cluster);
  request.dynamic_shared_bytes = shared;
  const auto* from = static_cast<const std::uint8_t*>(arguments.data());
  request.arguments.assign(from, from + arguments.size());
  emulator::LaunchOptions& options = request.options;
  options.schedule =
      choice<emulator::Schedule>("schedule", schedule, {"round_robin", "reverse", "random"});
  options.completion =
      choice<emulator::Completion>("completion", completion, {"eager", "latest", "random"});
  options.seed = seed;
  if (budget) options.instruction_budget = budget;
  options.threads = threads_from(threads);
  options.races = races;
  options.equal_stores_race = equal_stores_race;
  options.statistics = count;
  emulator::LaunchReport report;
  run_interruptible(nb::none(), [&](const ProgressCallback& progress) {
    options.keep_going = [&progress] { return progress(0, 0, ""); };
    report = emulator::launch(self.memory, self.module, request);
  });
  nb::dict result;
  result["completed"] = report.completed;
  result["warp_instructions"] = report.warp_instructions;
  result["printed"] = text_of(report.printed);
  nb::list findings, counts;
  for (const auto& group : emulator::by_cause(report.findings))
    for (const std::size_t index : group)
      findings.append(to_dict(report.findings[index], index != group.front()));
  for (const emulator::InstructionCount& each : report.instructions) counts.append(to_dict(each));
  result["findings"] = findings;
  result["instructions"] = counts;
  return result;
}

}  // namespace

void bind_emulator(nb::module_& module) {
  nb::class_<PtxModule>(module, "PtxModule", "Behind microscale.emulator.launch.")
      .def(nb::init<const std::string&, const std::string&>(), nb::arg("text"), nb::arg("target"))
      .def(
          "kernels", [](const PtxModule& self) { return self.module.kernels(); },
          nb::sig("def kernels(self) -> list[str]"))
      .def(
          "kernel",
          [](const PtxModule& self, const std::string& word) {
            return emulator::kernel_of(self.module.kernels(), word, "kernel");
          },
          nb::arg("word"))
      .def("parameters", parameters, nb::arg("kernel"),
           nb::sig("def parameters(self, kernel: str) -> list[dict[str, Any]]"))
      .def(
          "grid_barrier",
          [](const PtxModule& self, const std::string& kernel) {
            return self.module.info(kernel).grid_barrier;
          },
          nb::arg("kernel"))
      .def("allocate", allocate, nb::arg("bytes"), nb::arg("name"))
      .def("write", write, nb::arg("address"), nb::arg("source"),
           nb::sig("def write(self, address: int, source: Array) -> None"))
      .def("read", read, nb::arg("address"), nb::arg("into"),
           nb::sig("def read(self, address: int, into: Array) -> None"))
      .def("unwritten", unwritten, nb::arg("address"), nb::arg("size"), nb::arg("mask"),
           nb::sig("def unwritten(self, address: int, size: int, mask: Array) -> None"))
      .def("write_variable", write_variable, nb::arg("name"), nb::arg("source"),
           nb::sig("def write_variable(self, name: str, source: Array) -> None"))
      .def("read_variable", read_variable, nb::arg("name"), nb::arg("into"),
           nb::sig("def read_variable(self, name: str, into: Array) -> None"))
      .def("launch", launch, nb::arg("kernel"), nb::arg("grid"), nb::arg("block"),
           nb::arg("cluster"), nb::arg("shared"), nb::arg("arguments"), nb::arg("schedule"),
           nb::arg("completion"), nb::arg("seed"), nb::arg("budget"), nb::arg("threads"),
           nb::arg("races"), nb::arg("equal_stores_race"), nb::arg("count"),
           nb::sig("def launch(self, kernel: str, grid: tuple[int, int, int], block: tuple[int, "
                   "int, int], cluster: tuple[int, int, int], shared: int, arguments: bytes, "
                   "schedule: str, completion: str, seed: int, budget: int, threads: int, races: "
                   "bool, equal_stores_race: bool, count: bool) -> dict[str, Any]"));
  module.def(
      "ptx_text",
      [](const std::filesystem::path& path, const std::string& target) {
        const WithoutGil released;
        return ptx_text(path, target);
      },
      nb::arg("path"), nb::arg("target"),
      nb::sig("def ptx_text(path: str | os.PathLike[str], target: str) -> str"),
      "The text of a PTX file, or what nvcc makes of a .cu file for `target`.");
  module.def("ptx_readable_name", emulator::readable_name, nb::arg("name"));
  module.def(
      "ptx_parameter_names",
      [](const std::string& source, const std::string& kernel) {
        return emulator::parameter_names(source, emulator::bare_name(kernel));
      },
      nb::arg("source"), nb::arg("kernel"),
      nb::sig("def ptx_parameter_names(source: str, kernel: str) -> list[str]"));
  module.def("ptx_tensor_map", tensor_map, nb::arg("address"), nb::arg("element_bytes"),
             nb::arg("size"), nb::arg("stride"), nb::arg("box"), nb::arg("swizzle"),
             nb::sig("def ptx_tensor_map(address: int, element_bytes: int, size: Sequence[int], "
                     "stride: Sequence[int], box: Sequence[int], swizzle: int) -> bytes"));
}

}  // namespace microscale::python

#else

#include "interruptible.hpp"

// A build without MICROSCALE_KERNEL_TOOLS: microscale.emulator says so when it is imported.
void microscale::python::bind_emulator(nb::module_&) {}

#endif
