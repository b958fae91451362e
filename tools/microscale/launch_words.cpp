// The options of `ptx`, in every build: the help names them even where nothing can run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arguments.hpp"
#include "kernel_commands.hpp"

namespace microscale {

std::vector<LaunchOption> launch_options(LaunchWords& words) {
  const auto one = [](const char* name, std::string& word, const char* placeholder,
                      const char* description, const char* actions = "run and profile") {
    return LaunchOption{name, &word, nullptr, placeholder, description, actions};
  };
  return {
      one("--kernel", words.kernel, "NAME", "Kernel, or a part of its name",
          "explain, run and profile"),
      one("--grid", words.grid, "X,Y,Z", "Blocks of the grid [1]"),
      one("--block", words.block, "X,Y,Z", "Threads of a block [1]", "explain, run and profile"),
      one("--cluster", words.cluster, "X,Y,Z", "Blocks of a cluster [1]"),
      one("--shared", words.shared, "SIZE", "Dynamic shared memory [0]"),
      {"--arg", nullptr, &words.arguments, "ARG", "The next argument; see ARG below",
       "run and profile"},
      {"--out", nullptr, &words.outputs, "NAME=FILE", "Write an argument's buffer as .npy",
       "run and profile"},
      {"--symbol", nullptr, &words.symbols, "NAME=ARG", "What a constant or global variable holds",
       "run and profile"},
      {"--check", nullptr, &words.checks, "NAME=FILE",
       "Compare with a .npy file; FILE:1e-5: within", "run and profile"},
      {"--print", nullptr, &words.prints, "NAME:N", "Print the first elements", "run and profile"},
      one("--suppress", words.suppress, "FILE", "Findings to let go, a line each: KIND PLACE"),
      one("--exit-code", words.exit_code, "N", "Exit code where something is wrong [1]"),
      one("--target", words.target, "SM", "Run as sm_90a, sm_100f, ... [the file's]",
          "explain, run and profile"),
      one("--schedule", words.schedule, "SCHEDULE", "Which warp goes next [round_robin]"),
      one("--completion", words.completion, "COMPLETION", "When copies land [latest]"),
      one("--seed", words.seed, "N", "Of whatever is random [0]"),
      one("--budget", words.budget, "N", "Warp-instructions before it is called endless"),
      one("--html", words.html, "FILE", "profile: write a page", "profile"),
      one("--source", words.source, "DIR", "profile: look for the .cu files here, too", "profile"),
      one("--cubin", words.cubin, "FILE",
          "profile: the kernel's cubin, for registers and occupancy", "profile"),
      one("--watch", words.watch, "B:W", "profile: block and warp to step through [0:0]",
          "profile")};
}

std::string kernel_argument_help() {
  return fmt::format(
      "ARG: [NAME=]VALUE, [NAME=]TYPE:VALUE, [NAME=]TYPE[SHAPE]:GENERATOR[,SEED], "
      "[NAME=]FILE.npy,\n"
      "null, {{ARG,...}} (a struct) or tensormap:ARG,box=64x64[,swizzle=128].\n"
      "TYPE: u8, s8, u16, s16, f16, bf16, u32, s32, f32, u64, s64, f64.\n"
      "GENERATOR: {}; without one, bytes that were never written.",
      fmt::join(choices_of("GENERATOR"), ", "));
}

}  // namespace microscale
