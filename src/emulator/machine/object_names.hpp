// What is at the address of a finding, by name: a buffer, a variable of the module, an array in
// shared memory.
#pragma once

#include <string>
#include <vector>

#include "emulator/machine/loaded_module.hpp"
#include "emulator/memory/global_memory.hpp"
#include "microscale/emulator.hpp"

namespace microscale::emulator {

/// Fills in `object` of the findings of one launch of `kernel`.
void name_objects(std::vector<Finding>& findings, const GlobalMemory& memory,
                  const LoadedModule& module, const std::string& kernel);

}  // namespace microscale::emulator
