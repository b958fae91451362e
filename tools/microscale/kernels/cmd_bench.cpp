// bench: what an operation reaches of what the machine can move and compute, measured in the same
// run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "attention_plans.hpp"
#include "bench_operations.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "core/backend_name.hpp"
#include "kernel_commands.hpp"
#include "microscale/cuda.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void wrong(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

/// An operation, its functions, and which options are its own.
struct Operation {
  const char* name;
  BenchTable (*on_cpu)(const BenchOptions&, const bench::Watcher&);
  BenchTable (*on_gpu)(const BenchOptions&, const bench::Watcher&);  // null: nothing is timed there
  bool takes_size, takes_rotation, takes_tasks;
  const char* filters;                    // words that leave some cases
  std::string (*plans_text)() = nullptr;  // of --plan; null: the operation has none
  Json (*plans_json)() = nullptr;
};

constexpr Operation operations[] = {
    {"quantize", bench_quantize_cpu, bench_quantize_gpu, true, false, false,
     "mxfp4, nvfp4 or mxfp8"},
    {"matmul", bench_matmul_cpu, bench_matmul_gpu, false, true, true,
     "nvfp4, gated or experts; with --tasks gemv, gemm, dual or group", matmul_plans_text,
     matmul_plans_json},
    {"attention", bench_attention_cpu, bench_attention_gpu, false, true, false,
     "decode, prefill or append", attention_plans_text, attention_plans_json}};

const Operation& operation_from(const std::string& name) {
  std::vector<std::string> names;
  for (const Operation& each : operations) {
    if (name == each.name) return each;
    names.emplace_back(each.name);
  }
  wrong(fmt::format("no benchmark of '{}'{}; choose one of {}", name, did_you_mean(name, names),
                    fmt::join(names, ", ")));
}

/// Where to time: what --backend says.
struct Devices {
  bool cpu = false, gpu = false;
  bool gpu_named = false;  // so that it is an error where there is none
  int ordinal = 0;
  Backend backend = Backend::automatic;
};

Devices devices_from(const std::string& name) {
  if (name == "all") return {.cpu = true, .gpu = true};
  if (name == "cpu") return {.cpu = true};
  if (name == "cuda:all") wrong("--backend cuda:all: one GPU is timed at a time; use cuda:N");
  if (name == "cuda" || name.rfind("cuda:", 0) == 0)
    return {.gpu = true, .gpu_named = true, .ordinal = gpus_from(name).front()};
  std::vector<std::string> here{"all", "cpu", "cuda", "cuda:N"};
  for (const Backend backend : available_backends()) {
    if (name == to_string(backend)) return {.cpu = true, .backend = backend};
    here.emplace_back(to_string(backend));
  }
  wrong(fmt::format("--backend got '{}'{}; on this machine it takes one of {}", name,
                    did_you_mean(name, here), fmt::join(here, ", ")));
}

void refuse_others_options(const Operation& operation, const BenchWords& words) {
  const auto refuse = [&](bool given, bool takes, const char* option, const char* owner) {
    if (given && !takes)
      wrong(fmt::format("{} is of bench {}; leave it out of bench {}", option, owner,
                        operation.name));
  };
  refuse(!words.size.empty(), operation.takes_size, "--size", "quantize");
  refuse(!words.rotate_mib.empty(), operation.takes_rotation, "--rotate-mib",
         "matmul and attention");
  refuse(words.tasks, operation.takes_tasks, "--tasks", "matmul");
  refuse(words.few_rows, operation.takes_tasks, "--few-rows", "matmul");
  refuse(words.plan, operation.plans_text != nullptr, "--plan", "matmul and attention");
  const bool timing[] = {!words.filter.empty(), !words.runs.empty(),       !words.size.empty(),
                         words.tasks,           !words.rotate_mib.empty(), words.few_rows,
                         words.quick,           words.backend != "all"};
  if (words.plan && std::find(std::begin(timing), std::end(timing), true) != std::end(timing))
    wrong(
        "--plan times nothing, so options of cases, runs and backends have no effect; leave them "
        "out");
}

BenchOptions options_from(const BenchWords& words, const Devices& devices, int threads) {
  BenchOptions options{.context = {.backend = devices.backend, .threads = threads},
                       .filter = words.filter,
                       .tasks = words.tasks,
                       .few_rows = words.few_rows,
                       .quick = words.quick};
  const auto or_else = [](const std::string& word, const char* otherwise) {
    return word.empty() ? otherwise : word;
  };
  options.size = bytes_from("--size", or_else(words.size, words.quick ? "1MiB" : "1GiB"));
  options.rotate =
      integer_from("--rotate-mib", or_else(words.rotate_mib, words.quick ? "1" : "256"), 1, 1 << 20)
      << 20;
  options.runs = static_cast<int>(
      integer_from("--runs", or_else(words.runs, words.quick ? "1" : "7"), 1, 100000));
  if (options.size < (1 << 20)) wrong("--size is below 1MiB: too little to time");
  return options;
}

/// Which case is being timed: one line that is redrawn on a terminal, else a line a finished case.
class CaseProgress {
 public:
  explicit CaseProgress(Console& console)
      : console_(console), moving_(console.err.terminal && !plain_text_wanted() && !console.json) {
    console_.catch_interrupts();
  }
  ~CaseProgress() { clear(); }

  bench::Watcher watcher() {
    return {.begins =
                [this](const std::string& name, std::size_t number, std::size_t count) {
                  if (moving_) draw(fmt::format("{} of {}: {}", number, count, name));
                },
            .take =
                [this](const bench::Result& row) {
                  if (!moving_ && row.problem.empty())
                    console_.note(fmt::format("{}: {}", row.name, time_text(row.seconds)));
                },
            .stop = [this] { return console_.interrupted(); }};
  }

  void clear() {
    if (drawn_) draw("");
    drawn_ = false;
  }

 private:
  void draw(const std::string& line) {
    const std::string text = "\r\x1b[K" + shorten_middle(line, console_.err.width - 1);
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
    drawn_ = true;
  }

  Console& console_;
  bool moving_, drawn_ = false;
};

}  // namespace

int run_bench(const BenchWords& words, int threads, Console& console) {
  const Operation& operation = operation_from(words.operation);
  const Devices devices = devices_from(words.backend);
  refuse_others_options(operation, words);
  if (!devices.cpu && !(words.runs.empty() && words.size.empty() && words.rotate_mib.empty()))
    wrong("--runs, --size and --rotate-mib are of the CPU, which is not timed; leave them out");
  if (words.plan) {
    if (console.json)
      console.print_json(operation.plans_json());
    else
      console.print(operation.plans_text());
    return exit_success;
  }
  const BenchOptions options = options_from(words, devices, threads);
  std::vector<BenchTable> tables;
  std::string no_gpu;
  if (devices.gpu && !operation.on_gpu) {
    no_gpu = fmt::format("bench {} has no cases for one", operation.name);
    if (devices.gpu_named)
      throw Error(ErrorCode::unsupported,
                  fmt::format("--backend cuda: {}; use --backend cpu", no_gpu));
  } else if (devices.gpu && find_emulated_gpu(backend_of_environment())) {
    no_gpu = fmt::format("MICROSCALE_BACKEND is {}, and an emulator has no times; unset it",
                         backend_of_environment());
    if (devices.gpu_named) throw Error(ErrorCode::unsupported, "--backend cuda: " + no_gpu);
  } else if (devices.gpu && cuda::device_count() == 0) {
    no_gpu = cuda::unavailable_reason();
    if (devices.gpu_named)
      throw Error(ErrorCode::unsupported,
                  fmt::format("--backend cuda: {}; use --backend cpu", no_gpu));
  }
  {
    CaseProgress progress(console);
    const bench::Watcher watcher = progress.watcher();
    if (devices.cpu) tables.push_back(operation.on_cpu(options, watcher));
    if (devices.gpu && no_gpu.empty() && !console.interrupted()) {
      cuda::select_device(devices.ordinal);
      tables.push_back(operation.on_gpu(options, watcher));
    }
  }
  std::erase_if(tables, [](const BenchTable& table) { return table.rows.empty(); });
  if (tables.empty() && !console.interrupted())
    wrong(fmt::format("--filter {} leaves no case; try {}", words.filter, operation.filters));
  bool right = true;
  Json documents = Json::array();
  for (const BenchTable& table : tables) {
    for (const bench::Result& row : table.rows) right = right && !row.wrong();
    if (console.json)
      documents.push_back(bench_json(table));
    else
      console.print(bench_text(table, console.out) + (&table == &tables.back() ? "" : "\n"));
  }
  if (console.json) {
    Json document{{"operation", operation.name}, {"tables", documents}};
    if (options.quick) document["quick"] = true;
    if (!no_gpu.empty()) document["no_gpu"] = no_gpu;
    if (console.interrupted()) document["interrupted"] = true;
    console.print_json(document);
  } else {
    if (options.quick) console.print("Quick: cases too small for the times to mean anything.\n");
    if (!no_gpu.empty())
      console.print(paragraph("No GPU is timed: " + no_gpu + ".", console.out.width));
  }
  if (console.interrupted()) {
    console.note("microscale bench: interrupted; what is printed was finished before");
    return exit_code(ErrorCode::interrupted);
  }
  if (!right) console.note("microscale bench: a sampled element is beyond its bound");
  return right ? exit_success : exit_check_failed;
}

}  // namespace microscale
