// bench quantize: quantize and dequantize on the CPU, and with the fused producers on the current
// GPU.
#include <fmt/format.h>

#include <map>
#include <optional>

#include "bench_operations.hpp"
#include "cpu_quantize.hpp"
#include "cuda/device/kernel_images.hpp"
#include "gpu_timing.hpp"
#include "microscale/cuda.hpp"
#include "sass/disassemble.hpp"
#include "sass/quantizers.hpp"

namespace microscale {
namespace {

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
      if (image.entries.find(kernel + '\n') == image.entries.npos) continue;
      auto [it, fresh] = listings_.try_emplace(std::string(image.file));
      if (fresh) it->second = sass::disassemble(image.cubin.bytes());
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

bench::Result result_of(const cuda::Timing& timing, double copy_rate) {
  bench::Result row{.name = timing.what};
  row.seconds = timing.microseconds / 1e6;
  row.bytes = static_cast<double>(timing.bytes);
  row.limit = "copy";
  row.limit_seconds = row.bytes / copy_rate;
  row.must = timing.must;
  row.stretch = timing.stretch;
  row.must_seconds = timing.must_microseconds / 1e6;
  row.problem = timing.problem;
  return row;
}

}  // namespace

BenchTable bench_quantize_cpu(const BenchOptions& options, const bench::Watcher& watcher) {
  bench::CpuOptions measured{.size = static_cast<std::size_t>(options.size),
                             .runs = options.runs,
                             .context = options.context,
                             .filter = options.filter};
  BenchTable table = cpu_table(options.context);
  bench::Watcher inner = watcher;
  inner.take = [&](const bench::Result& row) {
    table.rows.push_back(row);
    table.threads = row.threads;
    if (watcher.take) watcher.take(row);
  };
  bench::measure_quantize(measured, inner);
  table.notes = {
      "Rates are of dense and packed bytes. The limit is a loop that moves the same bytes and "
      "computes "
      "nothing."};
  return table;
}

BenchTable bench_quantize_gpu(const BenchOptions& options, const bench::Watcher& watcher) {
  InstructionCounts counts;
  BenchTable table{.device = cuda::device_name(), .backend = "cuda"};
  cuda::Selection selection{.wanted_only = true, .filter = options.filter};
  const cuda::Timings timings =
      cuda::measure(cuda::runtime_device(), selection, [&](const cuda::Timings& so_far) {
        const cuda::Timing& timing = so_far.rows.back();
        table.rows.push_back(result_of(timing, so_far.copy_bytes_per_second));
        bench::Result& row = table.rows.back();
        if (const auto instructions = counts.of(timing.kernel))
          row.extras.push_back({"instr/element", "instructions_an_element", *instructions});
        if (watcher.take) watcher.take(row);
        return !watcher.stopped();
      });
  table.limits = {
      {fmt::format("copying {:.0f} GB/s", timings.copy_bytes_per_second / 1e9),
       "copy_bytes_per_second", timings.copy_bytes_per_second},
      {fmt::format("an empty node of a graph {:.1f} us", timings.empty_node_microseconds),
       "empty_node_seconds", timings.empty_node_microseconds / 1e6}};
  if (sass::find_nvdisasm().empty())
    table.notes.push_back(
        fmt::format("Instructions an element are left out: {}", sass::nvdisasm_advice()));
  return table;
}

}  // namespace microscale
