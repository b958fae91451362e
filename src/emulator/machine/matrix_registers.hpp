// Which registers of a program some wgmma accumulates in or takes A from, or some tcgen05.ld fills,
// and who else touches them.
#pragma once

#include "emulator/machine/program.hpp"

namespace microscale::emulator {

/// Fills Program::matrix_registers and OpInfo::matrix, and flags the operations that touch one of
/// them. To be called while OpInfo::reads is complete.
void mark_matrix_registers(Program& program);

/// The name of such a register.
const std::string& name_of(const Program& program, const MatrixRegister& matrix_register);

}  // namespace microscale::emulator
