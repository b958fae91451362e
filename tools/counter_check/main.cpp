// counter_check TESTS: launches the kernels of tests/support/counter_cases.hpp once each, in their
// order, for a profiler to count what they do to memory (tools/counter_check/record). TESTS: the
// folder tests of the checkout. Exit code 0: done; 4: no GPU, or an error.
#include <cstdio>
#include <exception>

#include "cuda/device/device.hpp"
#include "support/counter_cases.hpp"

int main(int argc, char** argv) {
  using namespace microscale;
  try {
    for (const testing::CounterCase& each : testing::counter_cases)
      testing::launch_counter_case(cuda::runtime_device(), each, argc > 1 ? argv[1] : "tests");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "counter_check: %s\n", error.what());
    return 4;
  }
}
