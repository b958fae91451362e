// A kernel launch as the command line describes it, performed on the emulator: what `ptx run` and
// `ptx profile` share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernel_arguments.hpp"
#include "kernel_commands.hpp"
#include "microscale/emulator.hpp"

namespace microscale {

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
  std::vector<std::string> unwritten;  ///< a sentence for each output with elements no thread wrote
};

/// Before the work: whether each file to be written, `page` among them where it is not empty, can
/// be, and is none of the files read.
void check_outputs(const PtxLaunch& launch, const std::filesystem::path& page);

/// Runs it and writes the outputs. `launch.kernel` may be a part of a name that only one kernel
/// has.
PtxLaunched perform(const PtxLaunch& launch);

/// `kernel`: only functions with this in their name. `target`: for which a .cu file is compiled.
int run_ptx_explain(const std::filesystem::path& file, const std::string& kernel,
                    const std::string& target, Console& console);
int run_ptx_run(const PtxLaunch& launch, Console& console);
/// `html`: page to write, empty: none. `source`: folder to look for the .cu files in, too.
int run_ptx_profile(const PtxLaunch& launch, const std::filesystem::path& html,
                    const std::filesystem::path& source, Console& console);

/// "naive(Args)" of a mangled name, without namespaces that have no name.
std::string readable(const std::string& kernel);
/// "16 x 16 blocks of 1024 threads".
std::string shape_words(const emulator::LaunchRequest& request);
nlohmann::ordered_json to_json(const emulator::Finding& finding);

}  // namespace microscale
