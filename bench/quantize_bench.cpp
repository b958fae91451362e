// Quantize and dequantize on the CPU beside the limit of the same run (cpu_quantize.hpp), on one
// thread and on all. `microscale bench quantize` prints the same figures with what was asked for.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cpu_quantize.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale::bench {
namespace {

void print(const CpuTiming& t, bool json, bool first) {
  if (json) {
    fmt::print(
        "{}{{\"case\":\"{}\",\"threads\":{},\"seconds\":{:.6f},\"bytes\":{},\"gb_per_s\":{:.3f},"
        "\"dense_gb_per_s\":{:.3f},\"share_of_loop\":{:.4f},\"share_of_memcpy\":{:.4f}}}",
        first ? "" : ",\n", t.name, t.threads, t.seconds, t.dense_bytes + t.packed_bytes,
        t.bytes_per_second() / 1e9, t.dense_bytes / t.seconds / 1e9, t.share_of_loop(),
        t.share_of_memcpy());
  } else {
    fmt::print("{:<30} {:>3} {:>9.1f} {:>8.2f} {:>10.2f} {:>10.1f} {:>10.1f}\n", t.name, t.threads,
               t.seconds * 1e3, t.bytes_per_second() / 1e9, t.dense_bytes / t.seconds / 1e9,
               100 * t.share_of_loop(), 100 * t.share_of_memcpy());
  }
  std::fflush(stdout);
}

int main_checked(int argc, char** argv) {
  CpuOptions options;
  bool json = false;
  std::vector<int> thread_counts{1, 0};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc)
        throw Error(ErrorCode::invalid_argument, argument + " needs a value; see --help");
      return argv[++i];
    };
    if (argument == "--json")
      json = true;
    else if (argument == "--size-mib")
      options.size = std::stoull(value()) << 20;
    else if (argument == "--runs")
      options.runs = std::stoi(value());
    else if (argument == "--filter")
      options.filter = value();
    else if (argument == "--threads")
      thread_counts = {std::stoi(value())};
    else {
      fmt::print(
          "quantize_bench [--filter TEXT] [--size-mib 1024] [--runs 7] [--threads N] [--json]\n"
          "Rates are GB/s of dense plus packed bytes, and of dense bytes alone; the shares are of "
          "a\n"
          "loop that moves the same bytes, timed in turn with the kernel, and of memcpy.\n");
      return argument == "--help" ? 0 : 2;
    }
  }
  if (json)
    fmt::print("[");
  else
    fmt::print("backend {}\n{:<30} {:>3} {:>9} {:>8} {:>10} {:>10} {:>10}\n",
               to_string(available_backends().front()), "case", "thr", "ms", "GB/s", "dense GB/s",
               "% of loop", "% memcpy");
  bool first = true;
  for (const int threads : thread_counts) {
    options.threads = threads;
    measure_cpu(options, [&](const CpuTiming& timing) {
      print(timing, json, first);
      first = false;
    });
  }
  if (json) fmt::print("]\n");
  return 0;
}

}  // namespace
}  // namespace microscale::bench

int main(int argc, char** argv) {
  try {
    return microscale::bench::main_checked(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "quantize_bench: {}\n", error.what());
    return 4;
  }
}
