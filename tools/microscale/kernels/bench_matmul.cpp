// bench matmul: which cases, beside which limits, on the CPU and on the current GPU.
#include <fmt/format.h>

#include "bench_operations.hpp"
#include "cpu_matmul.hpp"
#include "cuda/device/facts.hpp"
#include "cuda/matmul/matmul.hpp"
#include "gpu_matmul.hpp"
#include "matmul_tasks.hpp"
#include "microscale/cuda.hpp"

namespace microscale {
namespace {

const char* const names_note =
    "A case is formats and m x n x k; one format alone: of the weights, activations BF16. Weights "
    "are packed beforehand, but for \"plain\" ones, which are as checkpoints have them.";
const char* const tasks_note =
    "A task is M x N x K as \"Twelve Attempts at an FP4 Kernel\" has it, G: groups, L: products at "
    "once; operands unpacked, "
    "random over all codes. Floor: the bytes at the read bandwidth or the operations at the peak "
    "of this run, whichever is more. B200: the best known entry, and the speed of light that the "
    "task "
    "states.";

/// The rows of a measurement, with what stands beside them.
struct Rows {
  std::vector<bench::MatmulCase> cases;
  std::vector<bench::MatmulTask> tasks;
  std::vector<bench::Result> rows;

  explicit Rows(const BenchOptions& options, bool gpu) : gpu_(gpu) {
    if (options.tasks) tasks = bench::matmul_tasks(options.quick);
    cases = options.tasks      ? bench::cases_of(tasks)
            : options.few_rows ? bench::few_rows_cases(options.quick)
            : gpu              ? bench::gpu_matmul_cases(options.quick)
                               : bench::cpu_matmul_cases(options.quick);
  }

  bench::Watcher watcher(const bench::Watcher& outer) {
    bench::Watcher inner = outer;
    inner.take = [this, outer](const bench::Result& row) {
      rows.push_back(row);
      bench::add_task_figures(tasks, rows.back(), gpu_);
      if (outer.take) outer.take(row);
    };
    return inner;
  }

  void finish(BenchTable& table) {
    bench::add_equal_products(cases, rows);
    table.rows = tasks.empty() ? rows : bench::with_task_means(tasks, rows);
    table.floors = !tasks.empty();
    table.notes.push_back(tasks.empty() ? names_note : tasks_note);
    bool plain = false;
    for (const bench::Result& row : table.rows)
      for (const bench::Beside& other : row.beside) plain |= other.title == "of plain";
    if (plain)
      table.notes.push_back(
          "Of plain: the rate, in units of that of a plain product of the same bytes and "
          "operations.");
  }

 private:
  bool gpu_;
};

}  // namespace

std::string matmul_plans_text() { return cuda::plan_table(); }

nlohmann::ordered_json matmul_plans_json() {
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
  for (const char* name : cuda::planned_gpus) {
    const cuda::DeviceInfo& gpu = cuda::described_gpu(name);
    nlohmann::ordered_json plans = nlohmann::ordered_json::array();
    for (const cuda::PlanRow& row : cuda::plan_rows(gpu))
      plans.push_back({{"product", row.product},
                       {"first_m", row.first},
                       {"last_m", row.last},
                       {"n", row.n},
                       {"k", row.k},
                       {"plan", row.plan},
                       {"workspace_bytes", row.workspace_bytes}});
    gpus.push_back({{"gpu", gpu.name}, {"multiprocessors", gpu.multiprocessors}, {"plans", plans}});
  }
  return {{"operation", "matmul"}, {"gpus", gpus}};
}

BenchTable bench_matmul_cpu(const BenchOptions& options, const bench::Watcher& watcher) {
  bench::CpuMatmulOptions measured{.context = options.context,
                                   .rotate = static_cast<std::size_t>(options.rotate),
                                   .runs = options.runs,
                                   .filter = options.filter,
                                   .brief = options.quick};
  BenchTable table = cpu_table(options.context);
  const bench::CpuMatmulLimits limits = bench::cpu_matmul_limits(measured);
  table.threads = limits.threads;
  table.limits.push_back({fmt::format("reading {:.1f} GB/s", limits.read / 1e9),
                          "read_bytes_per_second", limits.read});
  const auto add = [&](const bench::Peak& peak, const char* key) {
    if (peak.operations > 0)
      table.limits.push_back(
          {fmt::format("{} out of registers {:.0f} GFLOP/s", peak.name, peak.operations / 1e9), key,
           peak.operations});
  };
  add(limits.peak, "peak_operations_per_second");
  if (limits.codes.name != limits.peak.name) add(limits.codes, "codes_operations_per_second");
  Rows rows(options, false);
  bench::measure_matmul(rows.cases, measured, limits, rows.watcher(watcher));
  rows.finish(table);
  return table;
}

BenchTable bench_matmul_gpu(const BenchOptions& options, const bench::Watcher& watcher) {
  cuda::Device& device = cuda::runtime_device();
  BenchTable table{.device = cuda::device_name(), .backend = "cuda"};
  const cuda::MatmulLimits limits = cuda::matmul_limits(device);
  const auto add = [&](const char* text, double value, double unit, const char* key) {
    if (value > 0)
      table.limits.push_back({fmt::format(fmt::runtime(text), value / unit), key, value});
  };
  add("reading {:.0f} GB/s", limits.read, 1e9, "read_bytes_per_second");
  add("copying {:.0f} GB/s", limits.copy, 1e9, "copy_bytes_per_second");
  add("FP16 products {:.0f} TFLOP/s", limits.f16, 1e12, "f16_operations_per_second");
  add("FP8 products {:.0f} TFLOP/s", limits.fp8, 1e12, "fp8_operations_per_second");
  add("an empty node of a graph {:.1f} us", limits.empty_node_seconds, 1e-6, "empty_node_seconds");
  add("a launch {:.1f} us of the host", limits.launch_seconds, 1e-6, "launch_seconds");
  Rows rows(options, true);
  cuda::measure_matmul(device, rows.cases, options.filter, limits, rows.watcher(watcher));
  rows.finish(table);
  return table;
}

}  // namespace microscale
