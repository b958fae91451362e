// gpu_check mma|ptx|counters ...: instructions.hpp. Else
// gpu_check [--quick] [--no-timing] [--only rows|columns|grouped|fused|products|attention]
// [--json]: backend cuda against the CPU, byte for byte (products and attention: within their
// bounds), then the table of times. Exit code 0: all equal; 1: something differs; 4: no GPU, or an
// error. --races: few calls that take every kernel instead, for compute-sanitizer's racecheck and
// synccheck; those of quantizers are not compared.
#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "attention.hpp"
#include "equality.hpp"
#include "fused.hpp"
#include "grouped.hpp"
#include "instructions.hpp"
#include "products.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"
#include "races.hpp"
#include "tasks.hpp"
#include "threads.hpp"
#include "gpu_timing.hpp"

namespace {

using namespace microscale;

nlohmann::json to_json(const cuda::EqualityTotals& totals, const cuda::Timings& timings) {
  nlohmann::json rows = nlohmann::json::array();
  for (const cuda::Timing& row : timings.rows)
    rows.push_back({{"case", row.what},
                    {"bytes", row.bytes},
                    {"microseconds", row.microseconds},
                    {"share_of_copy", row.share},
                    {"problem", row.problem}});
  return {{"device", cuda::device_name()},
          {"calls", totals.calls},
          {"elements", totals.elements},
          {"failed", totals.failed},
          {"differences", totals.differences},
          {"not_offered", totals.not_offered},
          {"copy_bytes_per_second", timings.copy_bytes_per_second},
          {"timings", rows}};
}

void print_equality(const cuda::EqualityTotals& totals) {
  fmt::print("{} calls, {:.1f} million elements compared with the CPU: {} differ\n", totals.calls,
             static_cast<double>(totals.elements) / 1e6, totals.failed);
  for (const std::string& difference : totals.differences) fmt::print("  {}\n", difference);
  if (!totals.not_offered.empty()) fmt::print("not offered ({}):\n", totals.not_offered.size());
  for (const std::string& what : totals.not_offered) fmt::print("  {}\n", what);
}

void print_timings(const cuda::Timings& timings) {
  fmt::print("copy: {:.3f} TB/s read and written\n{:<64}{:>10}{:>9}{:>7}\n",
             timings.copy_bytes_per_second / 1e12, "case", "us", "TB/s", "share");
  for (const cuda::Timing& row : timings.rows) {
    if (row.problem.empty())
      fmt::print("{:<64}{:>10.2f}{:>9.3f}{:>7.3f}\n", row.what, row.microseconds,
                 static_cast<double>(row.bytes) / row.microseconds / 1e6, row.share);
    else
      fmt::print("{:<64} not measured: {}\n", row.what, row.problem);
  }
}

using Subcommand = int (*)(std::span<char*>);
Subcommand subcommand_of(std::string_view word) {
  if (word == "mma") return cuda::check_matrix_instructions;
  if (word == "ptx") return cuda::check_opcodes;
  if (word == "counters") return cuda::launch_counter_cases;
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  if (const Subcommand subcommand = argc > 1 ? subcommand_of(argv[1]) : nullptr) try {
      return subcommand(words.subspan(2));
    } catch (const std::exception& error) {
      fmt::print(stderr, "gpu_check {}: {}\n", argv[1], error.what());
      return 4;
    }
  bool quick = false, timing = true, json = false, races = false;
  std::string_view only;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    quick |= argument == "--quick";
    json |= argument == "--json";
    races |= argument == "--races";
    timing &= argument != "--no-timing";
    if (argument == "--only" && i + 1 < argc) only = argv[++i];
  }
  try {
    cuda::Device& device = cuda::runtime_device();
    if (!json) fmt::print("{}\n", cuda::device_name());
    const auto wanted = [only](std::string_view part) { return only.empty() || only == part; };
    if (races) {
      const cuda::Scope least{.amount = cuda::Amount::least};
      cuda::EqualityTotals totals;
      if (wanted("rows")) totals.calls += cuda::launch_each_kernel(device);
      if (wanted("products")) cuda::check_products(device, least, totals);
      if (wanted("products")) cuda::check_tasks(device, least, totals);
      if (wanted("attention")) {
        cuda::check_append_calls(device, least, totals);
        cuda::check_attention_calls(device, least, totals);
      }
      print_equality(totals);
      return totals.failed > 0 ? 1 : 0;
    }
    const cuda::Parts parts{wanted("rows"), wanted("columns")};
    cuda::Scope scope;
    if (quick) scope.amount = cuda::Amount::quick;
    cuda::EqualityTotals totals = cuda::check_equality(device, scope, parts);
    if (wanted("grouped")) cuda::check_grouped(device, scope, totals);
    if (wanted("grouped")) cuda::check_containers(device, totals);
    if (wanted("fused")) cuda::check_fused(device, scope, totals);
    if (wanted("products")) {
      cuda::check_products(device, scope, totals);
      cuda::check_tasks(device, scope, totals);
      cuda::check_threads(device, totals);
    }
    if (wanted("attention")) {
      cuda::check_append_calls(device, scope, totals);
      cuda::check_attention_calls(device, scope, totals);
    }
    if (!json) print_equality(totals);
    cuda::Timings timings;
    cuda::Selection selection{parts.rows, parts.columns, wanted("grouped"), wanted("fused")};
    if (timing) timings = cuda::measure(device, selection);

    if (json)
      fmt::print("{}\n", to_json(totals, timings).dump(1));
    else if (timing)
      print_timings(timings);
    return totals.failed > 0 ? 1 : 0;
  } catch (const Error& error) {
    fmt::print(stderr, "gpu_check: {}\n", error.what());
    return 4;
  }
}
