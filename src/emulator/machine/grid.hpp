// The clusters of a launch on the host's threads, one after the other; one that only waits for what
// another block does makes room for others.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/machine/launch_state.hpp"

namespace microscale::emulator {

/// Runs all clusters, or until the launch is stopped. `counts`: of each host thread, two numbers
/// for each operation (executions by warps and by lanes), or empty: nothing is counted. Their
/// number is that of the threads.
void run_grid(LaunchState& launch, std::vector<std::vector<std::uint64_t>>& counts);

}  // namespace microscale::emulator
