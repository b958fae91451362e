// The same commands in a build without them.
#if !defined(MICROSCALE_HAS_KERNEL_TOOLS)

#include "kernel_commands.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

[[noreturn]] void refuse(const std::string& command) {
  throw Error(
      ErrorCode::unsupported,
      command +
          ": this program was built without the tools for GPU kernels, as `make demo` does to be "
          "quick; `make` builds them, or cmake -D MICROSCALE_KERNEL_TOOLS=ON");
}

}  // namespace

int run_ptx(const std::string& action, const std::string&, const LaunchWords&, int, Console&) {
  refuse("ptx " + action);
}
int run_explain_mma(const std::vector<std::string>&, const MmaWords&, Console&) {
  refuse("explain mma");
}
int run_explain_occupancy(const std::vector<std::string>&, const OccupancyWords&, Console&) {
  refuse("explain occupancy");
}
int run(const SassCommand&, Console&) { refuse("sass"); }
int run_bench(const BenchWords&, int, Console&) { refuse("bench"); }

}  // namespace microscale

#endif
