// Which reads need a look at run time, whether their register was written.
#pragma once

#include "emulator/machine/program.hpp"

namespace microscale::emulator {

/// Follows all paths through each function: where every path to a read writes the register first,
/// for every lane, nothing needs to be checked. Sets Op::flags of the other reads, and of all
/// writes of the registers they read; drops what is not needed from OpInfo, but for its sources.
/// Marks the operations that decide something.
void mark_unproven(Program& program);

}  // namespace microscale::emulator
