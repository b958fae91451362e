// Launches for a profiler to count (instructions.hpp).
#include "cuda/device/device.hpp"
#include "instructions.hpp"
#include "support/counter_cases.hpp"

namespace microscale::cuda {

int launch_counter_cases(std::span<char*> words) {
  for (const testing::CounterCase& each : testing::counter_cases)
    testing::launch_counter_case(runtime_device(), each, words.empty() ? "tests" : words[0]);
  return 0;
}

}  // namespace microscale::cuda
