// bench: what an operation reaches of what the machine can move, measured in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.hpp"
#include "console.hpp"
#include "kernel_commands.hpp"
#include "cpu_quantize.hpp"
#include "cuda/kernel_images.hpp"
#include "gpu_timing.hpp"
#include "microscale/context.hpp"
#include "microscale/cuda.hpp"
#include "report/table.hpp"
#include "sass/disassemble.hpp"
#include "sass/quantizers.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

std::string two_digits(double value) { return value > 0 ? fmt::format("{:.2f}", value) : ""; }

/// Instructions an element of kernels on the current GPU's architecture, from this program's
/// cubins.
class InstructionCounts {
 public:
  InstructionCounts() {
    const std::string name = cuda::device_name();  // "NVIDIA H200 (sm_90a)"
    const auto open = name.rfind('(');
    architecture_ = name.substr(open + 1, name.rfind(')') - open - 1);
  }

  std::optional<double> of(const std::string& kernel) {
    if (sass::find_nvdisasm().empty() || !sass::thread_work(kernel, architecture_))
      return std::nullopt;
    for (const cuda::KernelImage& image : cuda::kernel_images()) {
      if (image.architecture != architecture_) continue;
      if (std::search(image.cubin.begin(), image.cubin.end(), kernel.begin(), kernel.end()) ==
          image.cubin.end())
        continue;
      auto [it, fresh] = listings_.try_emplace(std::string(image.file));
      if (fresh) it->second = sass::disassemble(image.cubin);
      for (const sass::Function& function : it->second.functions)
        if (function.name == kernel)
          if (const auto cost = sass::thread_cost(function, architecture_)) return cost->an_element;
    }
    return std::nullopt;
  }

 private:
  std::string architecture_;
  std::map<std::string, sass::Listing> listings_;  // by file
};

int bench_cpu(const BenchCommand& command, Console& console) {
  if (command.bytes < (1 << 20))
    throw Error(ErrorCode::invalid_argument, "--size is below 1MiB: too little to time");
  const std::string backend(to_string(available_backends().front()));
  console.note(fmt::format("{} kernels; each case takes some seconds", backend));
  Table table({{"case", Align::left, true},
               {"threads", Align::right},
               {"GB/s", Align::right},
               {"loop GB/s", Align::right},
               {"memcpy GB/s", Align::right},
               {"of the loop", Align::right},
               {"must", Align::right}});
  Json cases = Json::array();
  bench::CpuOptions options{.size = static_cast<std::size_t>(command.bytes),
                            .filter = command.filter};
  options.threads = command.threads;
  bench::measure_cpu(options, [&](const bench::CpuTiming& t) {
    const double bytes = t.dense_bytes + t.packed_bytes;
    cases.push_back({{"case", t.name},
                     {"threads", t.threads},
                     {"seconds", t.seconds},
                     {"bytes", bytes},
                     {"bytes_per_second", t.bytes_per_second()},
                     {"loop_bytes_per_second", bytes / t.loop_seconds},
                     {"memcpy_bytes_per_second", t.memcpy_bytes_per_second},
                     {"share_of_loop", t.share_of_loop()},
                     {"must", t.must > 0 ? Json(t.must) : Json()}});
    table.add_row({t.name, fmt::to_string(t.threads),
                   fmt::format("{:.2f}", t.bytes_per_second() / 1e9),
                   fmt::format("{:.2f}", bytes / t.loop_seconds / 1e9),
                   fmt::format("{:.2f}", t.memcpy_bytes_per_second / 1e9),
                   two_digits(t.share_of_loop()), two_digits(t.must)});
    console.note(fmt::format("{}: {:.2f} GB/s", t.name, t.bytes_per_second() / 1e9));
  });
  if (cases.empty())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("--filter {} leaves no case; try mxfp4, nvfp4 or mxfp8", command.filter));
  if (console.json)
    console.print_json(
        {{"operation", "quantize"}, {"device", "cpu"}, {"backend", backend}, {"cases", cases}});
  else
    console.print(table.text(console.out));
  return exit_success;
}

Json to_json(const cuda::Timing& row, const std::optional<double>& instructions) {
  const auto or_null = [](double value) { return value > 0 ? Json(value) : Json(); };
  Json json{{"case", row.what}, {"kernel", row.kernel}, {"bytes", row.bytes}};
  json["microseconds"] = or_null(row.microseconds);
  json["share_of_copy"] = or_null(row.share);
  json["must"] = or_null(row.must);
  json["stretch"] = or_null(row.stretch);
  json["must_microseconds"] = or_null(row.must_microseconds);
  json["instructions_an_element"] = instructions ? Json(*instructions) : Json();
  if (!row.problem.empty()) json["problem"] = row.problem;
  return json;
}

int bench_gpu(const BenchCommand& command, Console& console) {
  if (cuda::device_count() == 0)
    throw Error(ErrorCode::unsupported,
                fmt::format("--device cuda: {}; use --device cpu", cuda::unavailable_reason()));
  if (command.gpus.size() != 1)
    throw Error(ErrorCode::invalid_argument,
                "--device cuda:all: one GPU is timed at a time; use cuda:N");
  cuda::select_device(command.gpus.front());
  InstructionCounts counts;
  if (sass::find_nvdisasm().empty())
    console.note(fmt::format("instructions an element are left out: {}", sass::nvdisasm_advice()));
  cuda::Selection selection{.wanted_only = true, .filter = command.filter};
  const cuda::Timings timings =
      cuda::measure(cuda::runtime_device(), selection, [&](const cuda::Timings& so_far) {
        const cuda::Timing& row = so_far.rows.back();
        console.note(fmt::format("{}: {:.3f} of the copy", row.what, row.share));
      });
  if (timings.rows.empty())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("--filter {} leaves no case; try mxfp4, nvfp4, mxfp8 or SiLU", command.filter));
  Table table({{"case", Align::left, true},
               {"us", Align::right},
               {"GB/s", Align::right},
               {"of the copy", Align::right},
               {"must", Align::right},
               {"stretch", Align::right},
               {"instr/element", Align::right}});
  Json cases = Json::array();
  for (const cuda::Timing& row : timings.rows) {
    const std::optional<double> instructions = counts.of(row.kernel);
    cases.push_back(to_json(row, instructions));
    if (!row.problem.empty()) {
      table.add_row({row.what, "not measured: " + row.problem});
      continue;
    }
    const std::string must = row.must_microseconds > 0
                                 ? fmt::format("{:.1f} us", row.must_microseconds)
                                 : two_digits(row.must);
    table.add_row({row.what, fmt::format("{:.1f}", row.microseconds),
                   fmt::format("{:.0f}", static_cast<double>(row.bytes) / row.microseconds / 1e3),
                   fmt::format("{:.3f}", row.share), must, two_digits(row.stretch),
                   instructions ? fmt::format("{:.1f}", *instructions) : ""});
  }
  const std::string device = cuda::device_name();
  if (console.json)
    console.print_json({{"operation", "quantize"},
                        {"device", device},
                        {"copy_bytes_per_second", timings.copy_bytes_per_second},
                        {"empty_node_microseconds", timings.empty_node_microseconds},
                        {"cases", cases}});
  else
    console.print(
        fmt::format("{}; a copy moves {:.0f} GB/s, read and written; an empty node of a graph "
                    "takes {:.1f} us\n{}",
                    device, timings.copy_bytes_per_second / 1e9, timings.empty_node_microseconds,
                    table.text(console.out)));
  return exit_success;
}

}  // namespace

int run(const BenchCommand& command, Console& console) {
  if (command.operation != "quantize")
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no benchmark of '{}'; there is: quantize", command.operation));
  return command.gpus.empty() ? bench_cpu(command, console) : bench_gpu(command, console);
}

}  // namespace microscale
