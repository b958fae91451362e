// The one table of `microscale bench`: rows of any operation on one device, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "microscale/context.hpp"
#include "report/terminal.hpp"
#include "result.hpp"

namespace microscale {

struct BenchLimit {
  std::string text;  ///< "reading 21.4 GB/s"
  std::string key;   ///< of the JSON member, as "read_bytes_per_second"
  double value = 0;
};

struct BenchTable {
  std::string device;   ///< "cpu", or the GPU's name
  std::string backend;  ///< whose kernels: "avx2", "cuda"
  int threads = 0;      ///< 0: a GPU
  std::vector<BenchLimit> limits{};
  std::vector<bench::Result> rows{};
  bool floors = false;               ///< a column of the limits' times, instead of rates
  std::vector<std::string> notes{};  ///< how to read it; sentences
};

/// An empty table of the CPU, with the backend that `context` gets.
BenchTable cpu_table(const Context& context);

/// "1.63 ms": three digits.
std::string time_text(double seconds);
/// "25.1 GB/s", or "1.42 TFLOP/s" of a row that arithmetic bounds.
std::string rate_text(const bench::Result& row);

/// A heading, the table without the columns that no row fills, the notes. Ends with a newline.
std::string bench_text(const BenchTable& table, const TextStyle& style);
nlohmann::ordered_json bench_json(const BenchTable& table);

}  // namespace microscale
