// Matrix products on the CPU: time, rate and share of the limits of the same run (cpu_matmul.hpp).
// Sampled results are compared with FP64 sums; a value beyond the bound is an error and exit
// code 1.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/threads.hpp"
#include "cpu_matmul.hpp"
#include "microscale/error.hpp"

namespace microscale::bench {
namespace {

constexpr const char* usage =
    "matmul_bench [--backend NAME] [--filter TEXT] [--rotate-mib 256] [--runs 7] [--threads N] "
    "[--json]\n"
    "GB/s are of weights and scales; '% read' is the time of a loop that reads the same bytes on "
    "the\n"
    "same threads over the product's; '% amx' the share of BF16 tile products from registers; "
    "'error'\n"
    "the worst sampled element in units of its bound (over 1: wrong). --rotate-mib: bytes of "
    "weights\n"
    "that a case goes through before one comes round again; more than the last cache to see "
    "memory.\n";

Backend backend_named(const std::string& name) {
  for (Backend backend : available_backends())
    if (to_string(backend) == name) return backend;
  throw Error(ErrorCode::unsupported, "no backend " + name + " on this machine");
}

void print(const MatmulTiming& t, double peak, bool json, bool first) {
  const double rate = t.operations / t.seconds;
  if (json)
    fmt::print(
        "{}{{\"case\":\"{}\",\"threads\":{},\"seconds\":{:.9f},\"gflops\":{:.2f},\"gb_per_s\":{:."
        "3f},"
        "\"share_of_read\":{:.4f},\"share_of_amx\":{:.4f},\"worst_error\":{:.4f}}}",
        first ? "" : ",\n", t.name, t.threads, t.seconds, rate / 1e9, t.bytes / t.seconds / 1e9,
        t.read_seconds / t.seconds, peak > 0 ? rate / peak : 0, t.worst_error);
  else
    fmt::print("{:<42} {:>3} {:>10.3f} {:>9.1f} {:>7.2f} {:>7.1f} {:>7.1f} {:>7.3f}\n", t.name,
               t.threads, t.seconds * 1e3, rate / 1e9, t.bytes / t.seconds / 1e9,
               100 * t.read_seconds / t.seconds, peak > 0 ? 100 * rate / peak : 0.0, t.worst_error);
  std::fflush(stdout);
}

int main_checked(int argc, char** argv) {
  MatmulBenchOptions options;
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
    else if (argument == "--rotate-mib")
      options.rotate = std::stoull(value()) << 20;
    else if (argument == "--runs")
      options.runs = std::stoi(value());
    else if (argument == "--filter")
      options.filter = value();
    else if (argument == "--backend")
      options.context.backend = backend_named(value());
    else if (argument == "--threads")
      thread_counts = {std::stoi(value())};
    else {
      fmt::print("{}", usage);
      return argument == "--help" ? 0 : 2;
    }
  }
  if (!json)
    fmt::print(
        "backend {}\n{:<42} {:>3} {:>10} {:>9} {:>7} {:>7} {:>7} {:>7}\n",
        to_string(options.context.backend == Backend::automatic ? available_backends().front()
                                                                : options.context.backend),
        "case", "thr", "ms", "GFLOP/s", "GB/s", "% read", "% amx", "error");
  if (json) fmt::print("[");
  bool first = true, right = true;
  for (const int threads : thread_counts) {
    options.context.threads = threads;
    const double peak = amx_peak(threads > 0 ? threads : available_cores());
    if (!json && peak > 0)
      fmt::print("AMX peak on {} threads: {:.0f} GFLOP/s\n", threads, peak / 1e9);
    measure_matmul(options, [&](const MatmulTiming& timing) {
      print(timing, peak, json, first);
      first = false;
      right &= timing.worst_error <= 1;
    });
  }
  if (json) fmt::print("]\n");
  if (!right) fmt::print(stderr, "matmul_bench: a sampled element is beyond its bound\n");
  return right ? 0 : 1;
}

}  // namespace
}  // namespace microscale::bench

int main(int argc, char** argv) {
  try {
    return microscale::bench::main_checked(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "matmul_bench: {}\n", error.what());
    return 4;
  }
}
