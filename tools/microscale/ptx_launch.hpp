// A kernel launch as the command line describes it, performed on the emulator: what `ptx run` and
// `ptx profile` share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernel_arguments.hpp"
#include "microscale/emulator.hpp"

namespace microscale {

/// As written; empty: not given.
struct LaunchWords {
  std::string kernel, target, grid = "1", block = "1", cluster = "1", shared = "0",
                              schedule = "round_robin", completion = "latest", seed = "0", budget,
                              watch = "0:0", html, source;
  std::vector<std::string> arguments, outputs;
};

/// An option of the command line: where its word goes, or its words if it may be repeated.
struct LaunchOption {
  const char* name;
  std::string* word;
  std::vector<std::string>* words;
  const char* placeholder;  ///< see choices_of
  const char* description;
};
std::vector<LaunchOption> launch_options(LaunchWords& words);

struct PtxLaunch {
  std::filesystem::path path;
  std::string kernel, target;
  emulator::LaunchRequest request;  ///< its arguments are made by perform()
  std::vector<KernelArgument> arguments;
  struct Output {
    std::size_t argument;
    std::filesystem::path path;
  };
  std::vector<Output> outputs;
};

/// Throws Error{invalid_argument}, naming the option.
PtxLaunch ptx_launch(const std::string& file, const LaunchWords& words, int threads);

/// Where a buffer was while the kernel ran.
struct PlacedBuffer {
  std::string name;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
};

struct PtxLaunched {
  std::string text;    ///< of the PTX
  std::string kernel;  ///< its whole name
  std::string target;
  emulator::LaunchReport report;
  std::vector<PlacedBuffer> buffers;
};

/// Runs it and writes the outputs. `launch.kernel` may be a part of a name that only one kernel
/// has.
PtxLaunched perform(const PtxLaunch& launch);

/// "naive(Args)" of a mangled name, without namespaces that have no name.
std::string readable(const std::string& kernel);
/// "16 x 16 blocks of 1024 threads".
std::string shape_words(const emulator::LaunchRequest& request);
nlohmann::ordered_json to_json(const emulator::Finding& finding);

}  // namespace microscale
