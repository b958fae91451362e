// The subcommands: what the command line asked of each, already parsed, and the function that does
// it. A function returns its exit code, or throws Error (or any std::exception), which main()
// reports.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/occupancy.hpp"
#include "emulator/tensor/mma_shape.hpp"
#include "emulator/tensor/scale_lanes.hpp"
#include "microscale/checkpoint.hpp"
#include "microscale/numerics.hpp"
#include "ptx_launch.hpp"

namespace microscale {

class Console;

/// Written into reports: "microscale 0.1.0".
inline constexpr std::string_view tool_version = "microscale " MICROSCALE_VERSION;

/// Exit codes besides those an Error gives (see exit_code in console.hpp).
inline constexpr int exit_success = 0;
inline constexpr int exit_check_failed = 1;  ///< verify found problems, compare exceeded --max-mse

/// quantize MODEL -o OUT --format F ...
struct QuantizeCommand {
  QuantizeModelOptions options;
  bool dry_run = false;          ///< print the plan, write nothing
  std::filesystem::path report;  ///< HTML file to write; empty: none
};

/// dequantize OUT -o DIR --dtype bf16
struct DequantizeCommand {
  std::filesystem::path input;
  std::filesystem::path output;
  DType dtype = DType::bf16;
  int threads = 0;  ///< 0: all cores
};

/// inspect PATH [TENSOR]
struct InspectCommand {
  std::filesystem::path path;
  std::string tensor;  ///< empty: list all
};

/// verify PATH
struct VerifyCommand {
  std::filesystem::path path;
  int threads = 0;
};

/// compare A B
struct CompareCommand {
  std::filesystem::path original;
  std::filesystem::path other;
  std::optional<double>
      max_mse;  ///< relative MSE of the whole above which the check has failed (0.01 = 1 %)
  int threads = 0;
};

/// explain [block] V... --format F
struct ExplainCommand {
  std::vector<float> values;  ///< at least one, at most one block
  Format format = Format::mxfp4;
  Numerics numerics;
  std::optional<float> global_scale;  ///< NVFP4 decode multiplier; from the values if absent
  bool compare = false;               ///< every rule and rounding side by side instead
};

/// ptx explain FILE
struct PtxExplainCommand {
  std::filesystem::path path;
};

/// sass FILE [--kernel TEXT]
struct SassCommand {
  std::filesystem::path file;  ///< a cubin, the text of a disassembly, or "sm_90a": what is carried
  std::string kernel;          ///< only kernels with this in their name
};

/// bench quantize [--device cuda] ...
struct BenchCommand {
  std::string operation;         ///< "quantize"
  std::vector<int> gpus;         ///< empty: the CPU
  std::string filter;            ///< only cases with this in their name
  std::int64_t bytes = 1 << 30;  ///< CPU: of the dense data
  int threads = 0;               ///< CPU; 0: all cores
};

/// ptx run FILE --kernel K --grid X --block X --arg ...
struct PtxRunCommand {
  PtxLaunch launch;
};

/// ptx profile FILE ...
struct PtxProfileCommand {
  PtxLaunch launch;
  std::filesystem::path html;    ///< page to write; empty: none
  std::filesystem::path source;  ///< folder to look for the .cu files in, too
};

/// Of `ptx ACTION`: explain, run or profile. Throws Error{invalid_argument} for words that are
/// wrong.
int run_ptx(const std::string& action, const std::string& file, const LaunchWords& words,
            int threads, Console& console);

/// What explain mma and explain occupancy were given, as written; empty: not given.
struct MmaWords {
  std::string elements, select_a, select_b, svg;
  bool probe = false;
};
struct OccupancyWords {
  std::string registers, shared = "0", threads, gpu = "h200";
};

/// explain mma KIND SHAPE
struct ExplainMmaCommand {
  emulator::tensor::MmaShape shape;
  emulator::tensor::ScaleSelector select_a, select_b;
  bool probe = false;
  std::filesystem::path svg;  ///< file to write; empty: none
};
ExplainMmaCommand explain_mma_from(const std::vector<std::string>& words, const MmaWords& options);

/// explain occupancy --regs R --shared S --threads T --gpu G
struct ExplainOccupancyCommand {
  emulator::KernelUse use;
  std::string gpu;
};
ExplainOccupancyCommand explain_occupancy_from(const std::vector<std::string>& words,
                                               const OccupancyWords& options);

int run_version(Console& console);
int run(const QuantizeCommand& command, Console& console);
int run(const DequantizeCommand& command, Console& console);
int run(const InspectCommand& command, Console& console);
int run(const VerifyCommand& command, Console& console);
int run(const CompareCommand& command, Console& console);
int run(const ExplainCommand& command, Console& console);
int run(const PtxExplainCommand& command, Console& console);
int run(const SassCommand& command, Console& console);
int run(const BenchCommand& command, Console& console);

int run(const PtxRunCommand& command, Console& console);
int run(const PtxProfileCommand& command, Console& console);
int run(const ExplainMmaCommand& command, Console& console);
int run(const ExplainOccupancyCommand& command, Console& console);

}  // namespace microscale
