// The subcommands: what the command line asked of each, already parsed, and the function that does
// it. A function returns its exit code, or throws Error (or any std::exception), which main()
// reports.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "microscale/checkpoint.hpp"
#include "microscale/numerics.hpp"
#include "microscale/version.hpp"

namespace microscale {

class Console;

/// Written into reports: "microscale 0.2.0".
inline std::string tool_version() { return "microscale " + std::string(version()); }

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
  int threads = 0;         ///< 0: all cores
  bool allow_nan = false;  ///< go on where scales are NaN
};

/// convert MODEL -o OUT --to CONTAINER ...
struct ConvertCommand {
  ConvertModelOptions options;
  bool dry_run = false;  ///< print the plan, write nothing
};

/// repair MODEL -o DIR [--dry-run]
struct RepairCommand {
  RepairModelOptions options;
};

/// inspect PATH [TENSOR]
struct InspectCommand {
  std::filesystem::path path;
  std::string tensor;    ///< empty: list all
  bool engines = false;  ///< which engine runs it, instead
};

/// verify PATH
struct VerifyCommand {
  std::filesystem::path path;
  int threads = 0;
  int tensor_parallel = 0;       ///< 0: not asked
  std::filesystem::path source;  ///< the model it was made of; empty: not compared
};

/// compare A B
struct CompareCommand {
  std::filesystem::path original;
  std::filesystem::path other;
  std::optional<double>
      max_mse;  ///< relative MSE, of the whole or of one tensor, above which the check has failed
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

int run_version(Console& console);
int run(const QuantizeCommand& command, Console& console);
int run(const ConvertCommand& command, Console& console);
int run(const DequantizeCommand& command, Console& console);
int run(const InspectCommand& command, Console& console);
int run(const VerifyCommand& command, Console& console);
int run(const RepairCommand& command, Console& console);
int run(const CompareCommand& command, Console& console);
int run(const ExplainCommand& command, Console& console);

}  // namespace microscale
