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
#include "parameter_bytes.hpp"
#include "result_checks.hpp"
#include "suppressions.hpp"

namespace microscale {

struct PtxLaunch {
  std::filesystem::path path;
  std::string kernel, target;
  emulator::LaunchRequest request;  ///< its arguments are made by perform()
  std::vector<KernelArgument> arguments;
  struct Output {
    std::string name;  ///< of an argument, its number, or a variable's
    std::filesystem::path path;
  };
  std::vector<Output> outputs;
  struct Symbol {
    std::string name;
    Array value;
  };
  std::vector<Symbol> symbols;  ///< variables of the module and what they hold
  std::vector<ResultCheck> checks;
  std::vector<ResultPrint> prints;
  std::vector<Suppression> suppressions;
  int findings_code = 1;  ///< exit code where something is wrong
};

/// Throws Error{invalid_argument}, naming the option.
PtxLaunch ptx_launch(const std::string& file, const LaunchWords& words, int threads);

struct PtxLaunched {
  std::string text;    ///< of the PTX
  std::string kernel;  ///< its whole name
  std::string target;
  emulator::LaunchReport report;
  std::vector<PlacedBuffer> buffers;
  std::vector<std::string> unwritten;  ///< a sentence for each output with elements no thread wrote
  std::vector<std::string> differences;  ///< a sentence for each check that failed
  std::vector<std::string> prints;       ///< a line for each array to be printed
  std::size_t suppressed = 0;            ///< findings that are not in the report

  bool clean() const { return report.findings.empty() && unwritten.empty() && differences.empty(); }
};

/// Before the work: whether each file to be written, `page` among them where it is not empty, can
/// be, and is none of the files read.
void check_outputs(const PtxLaunch& launch, const std::filesystem::path& page);

/// Runs it and writes the outputs. `launch.kernel` may be a part of a name that only one kernel
/// has.
PtxLaunched perform(const PtxLaunch& launch);

/// Of `words` the kernel (only functions with this in their name), the target (for which a .cu file
/// is compiled) and the block, if it is given.
int run_ptx_explain(const std::filesystem::path& file, const LaunchWords& words, Console& console);
/// "16,16" as --block takes it. Throws Error{invalid_argument}, naming the option.
emulator::Extent extent_from(const std::string& option, const std::string& text);
int run_ptx_run(const PtxLaunch& launch, Console& console);
/// Files of a profile; empty ones: none.
struct ProfileFiles {
  std::filesystem::path html;    ///< page to write
  std::filesystem::path source;  ///< folder to look for the .cu files in, too
  std::filesystem::path cubin;   ///< with the kernel, for what it takes of a GPU
};
int run_ptx_profile(const PtxLaunch& launch, const ProfileFiles& files, Console& console);

/// "16 x 16 blocks of 1024 threads".
std::string shape_words(const emulator::LaunchRequest& request);
nlohmann::ordered_json to_json(const emulator::Finding& finding);

}  // namespace microscale
