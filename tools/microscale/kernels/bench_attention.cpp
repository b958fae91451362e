// bench attention: which cases, beside which limits, on the CPU and on the current GPU.
#include <fmt/format.h>

#include "bench_operations.hpp"
#include "cpu_attention.hpp"
#include "gpu_attention.hpp"
#include "gpu_attention_prefill.hpp"
#include "microscale/cuda.hpp"

namespace microscale {

BenchTable bench_attention_cpu(const BenchOptions& options, const bench::Watcher& watcher) {
  BenchTable table = cpu_table(options.context);
  bench::Watcher inner = watcher;
  inner.take = [&](const bench::Result& row) {
    table.rows.push_back(row);
    table.threads = row.threads;
    if (watcher.take) watcher.take(row);
  };
  bench::measure_attention_cases(bench::cpu_attention_cases(options.quick),
                                 {.context = options.context,
                                  .rotate = static_cast<std::size_t>(options.rotate),
                                  .runs = options.runs,
                                  .filter = options.filter,
                                  .brief = options.quick},
                                 inner);
  table.notes = {
      "32 query heads, 8 kv heads (prefill: 8 and 8), d = 128; decode: one query a sequence. Bytes "
      "are those of "
      "the keys and values that are read, of append those read and written."};
  return table;
}

BenchTable bench_attention_gpu(const BenchOptions& options, const bench::Watcher& watcher) {
  cuda::Device& device = cuda::runtime_device();
  BenchTable table{.device = cuda::device_name(), .backend = "cuda"};
  const cuda::MatmulLimits limits = cuda::matmul_limits(device);
  table.limits = {
      {fmt::format("reading {:.0f} GB/s", limits.read / 1e9), "read_bytes_per_second", limits.read},
      {fmt::format("copying {:.0f} GB/s", limits.copy / 1e9), "copy_bytes_per_second", limits.copy},
      {fmt::format("an empty node of a graph {:.1f} us", limits.empty_node_seconds * 1e6),
       "empty_node_seconds", limits.empty_node_seconds},
      {fmt::format("a launch {:.1f} us of the host", limits.launch_seconds * 1e6), "launch_seconds",
       limits.launch_seconds}};
  if (limits.f16 > 0)
    table.limits.push_back({fmt::format("FP16 products {:.0f} TFLOP/s", limits.f16 / 1e12),
                            "f16_operations_per_second", limits.f16});
  if (limits.fp8 > 0)
    table.limits.push_back({fmt::format("FP8 products {:.0f} TFLOP/s", limits.fp8 / 1e12),
                            "fp8_operations_per_second", limits.fp8});
  bench::Watcher inner = watcher;
  inner.take = [&](const bench::Result& row) {
    table.rows.push_back(row);
    if (watcher.take) watcher.take(row);
  };
  cuda::measure_attention(device, cuda::gpu_attention_cases(options.quick), options.filter, limits,
                          inner);
  if (!inner.stopped())
    cuda::measure_prefill(device, cuda::gpu_prefill_cases(options.quick), options.filter, limits,
                          inner);
  table.notes = {
      "decode: 32 query heads, 8 kv heads, d = 128, one query a sequence. Bytes are those of the "
      "keys and values that are read.",
      "prefill: 32 heads, d = 128, causal, but where it is said; operations are those of half of "
      "the scores, the time has the expansion of keys and values in it."};
  return table;
}

}  // namespace microscale
