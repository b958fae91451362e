// What is behind the public Memory.
#pragma once

#include "emulator/memory/global_memory.hpp"
#include "microscale/emulator.hpp"

namespace microscale::emulator {

struct Memory::State {
  GlobalMemory global;
};

}  // namespace microscale::emulator
