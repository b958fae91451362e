// What `microscale bench` can time: one function per operation and kind of device. A new operation
// is a file with its two functions, and a row in cmd_bench.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "bench_table.hpp"
#include "microscale/context.hpp"

namespace microscale {

/// The options of bench, as numbers.
struct BenchOptions {
  Context context;          ///< CPU: backend (automatic: the fastest) and threads
  std::string filter;       ///< only cases with this in their name
  std::int64_t size = 0;    ///< quantize, CPU: bytes of dense data of a case
  std::int64_t rotate = 0;  ///< CPU: bytes of weights or of a cache before one comes round again
  int runs = 0;             ///< CPU
  bool tasks = false;       ///< matmul: the four tasks of "Twelve Attempts" instead
  bool few_rows = false;    ///< matmul: products of 1 to 16 rows instead
  bool quick = false;       ///< small cases
};

/// Times the cases that the filter leaves and the watcher's stop does not cut off. The GPU is the
/// current one. Throws Error.
BenchTable bench_quantize_cpu(const BenchOptions& options, const bench::Watcher& watcher);
BenchTable bench_quantize_gpu(const BenchOptions& options, const bench::Watcher& watcher);
BenchTable bench_matmul_cpu(const BenchOptions& options, const bench::Watcher& watcher);
BenchTable bench_matmul_gpu(const BenchOptions& options, const bench::Watcher& watcher);
/// What `bench matmul --plan` prints, as text or as JSON (attention's: attention_plans.hpp).
std::string matmul_plans_text();
nlohmann::ordered_json matmul_plans_json();
BenchTable bench_attention_cpu(const BenchOptions& options, const bench::Watcher& watcher);
BenchTable bench_attention_gpu(const BenchOptions& options, const bench::Watcher& watcher);

}  // namespace microscale
