// bench attention: which cases, beside which limits, on the CPU.
#include "bench_operations.hpp"
#include "cpu_attention.hpp"

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

}  // namespace microscale
