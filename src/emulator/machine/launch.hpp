// A grid over host threads.
#pragma once

#include "core/result.hpp"
#include "emulator/machine/loaded_module.hpp"
#include "microscale/emulator.hpp"

namespace microscale::emulator {

/// Of shared memory of a block, more than which no launch gets.
inline constexpr std::int64_t most_shared_bytes = 227 * 1024;

/// Runs request.kernel of `module` on `memory` to its end or to a fatal finding. Fails for what is
/// not a launch: shapes beyond a GPU's limits, arguments of the wrong size, a kernel that cannot be
/// decoded.
Result<LaunchReport> run_launch(GlobalMemory& memory, const LoadedModule& module,
                                const LaunchRequest& request);

}  // namespace microscale::emulator
