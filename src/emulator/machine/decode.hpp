// From a parsed entry to a Program: names are gone, operands are slots, every instruction has its
// handler. What the machine does not know is refused, with the line.
#pragma once

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "emulator/machine/program.hpp"
#include "emulator/ptx/module.hpp"

namespace microscale::emulator {

/// Where a module's variables are, by index: global ones at their address, constant ones at an
/// offset in the constant window; others are not looked at.
using VariableAddresses = std::vector<std::uint64_t>;

/// The entry and all it calls.
Result<Program> decode(const ptx::Module& module, std::size_t entry,
                       const VariableAddresses& addresses);

}  // namespace microscale::emulator
