// The subcommands about GPU kernels, as written on the command line: ptx, sass, bench, explain mma
// and explain occupancy. kernels/ does them; a build without MICROSCALE_KERNEL_TOOLS refuses them
// (kernel_commands_absent.cpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace microscale {

class Console;

/// sass FILE [--kernel TEXT]
struct SassCommand {
  std::filesystem::path file;  ///< a cubin, the text of a disassembly, or "sm_90a": what is carried
  std::string kernel;          ///< only kernels with this in their name
};

/// What bench was given, as written; empty: not given.
struct BenchWords {
  std::string operation, backend = "all", filter, size, rotate_mib, runs;
  bool tasks = false, few_rows = false, quick = false, plan = false;
};

/// What ptx was given, as written; empty: not given.
struct LaunchWords {
  std::string kernel, target, grid = "1", block, cluster = "1", shared, schedule = "round_robin",
                              completion = "latest", seed = "0", budget, watch = "0:0", html,
                              source, cubin, suppress, exit_code = "1";
  std::vector<std::string> arguments, outputs, symbols, checks, prints;
};

/// An option of the command line: where its word goes, or its words if it may be repeated.
struct LaunchOption {
  const char* name;
  std::string* word;
  std::vector<std::string>* words;
  const char* placeholder;  ///< see choices_of
  const char* description;
  const char* actions;  ///< that take it, in words
};
std::vector<LaunchOption> launch_options(LaunchWords& words);
/// What an --arg can be, for a help text.
std::string kernel_argument_help();

/// What explain mma and explain occupancy were given, as written; empty: not given.
struct MmaWords {
  std::string elements, select_a, select_b, svg;
  bool probe = false;
};
struct OccupancyWords {
  std::string registers, shared, threads, gpu;
};

/// Each throws Error{invalid_argument} for words that are wrong. `action`: explain, run or profile.
int run_ptx(const std::string& action, const std::string& file, const LaunchWords& words,
            int threads, Console& console);
/// `words`: KIND SHAPE.
int run_explain_mma(const std::vector<std::string>& words, const MmaWords& options,
                    Console& console);
/// `words`: none.
int run_explain_occupancy(const std::vector<std::string>& words, const OccupancyWords& options,
                          Console& console);
int run(const SassCommand& command, Console& console);
int run_bench(const BenchWords& words, int threads, Console& console);

}  // namespace microscale
