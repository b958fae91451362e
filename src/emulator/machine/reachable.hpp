// Where the code of a program can go from an operation.
#pragma once

#include <cstdint>

#include "emulator/machine/program.hpp"

namespace microscale::emulator {

/// Whether lanes that go on from operation `from` can come to one of [begin, end) that does
/// something, which branches, returns and exits do not. Within `from`'s function; calls come back.
bool reaches_work(const Program& program, std::uint32_t from, std::uint32_t begin,
                  std::uint32_t end);

}  // namespace microscale::emulator
