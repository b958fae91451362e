// Every subcommand's options, and where their words go.
#pragma once

#include <string>
#include <vector>

#include "arguments.hpp"
#include "kernel_commands.hpp"

namespace CLI {
class App;
}

namespace microscale {

/// What was written for the options, of whichever subcommand it was.
struct Words {
  NumericWords numeric;
  std::string input, output, other, tensor, experts, activations, container, input_scales,
      importance, calibrate, method, shrink, damping, bits, fit, menu, report, shell, action, text;
  std::string tensor_parallel, threads = "0", max_memory = "1GiB", dtype = "bf16", device = "cpu",
                               max_mse, global_scale;
  std::vector<std::string> include, ignore, use, lora, values;
  LaunchWords launch;
  bool engines = false, resume = false, dry_run = false, compare = false, json = false,
       allow_nan = false, allow_incomplete = false, rotate = false, exact = false, to_nvfp4 = false,
       read_back = false;
  MmaWords mma;
  OccupancyWords occupancy;
  BenchWords bench;
};

/// Adds all subcommands; parsing then fills `words`, which must outlive `app`.
void add_commands(CLI::App& app, Words& words);

}  // namespace microscale
