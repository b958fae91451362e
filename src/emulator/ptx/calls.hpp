// Which functions a call may go to.
#pragma once

#include "emulator/ptx/ast.hpp"

namespace microscale::emulator::ptx {

/// Whether `call`, through a register, in the body of `caller`, can be of `callee`: a function with
/// a body, whose parameters and results have the sizes that the call gives.
bool may_call(const Function& caller, const Instruction& call, const Function& callee);

/// Whether a call goes through a register.
inline bool is_indirect(const Instruction& instruction) {
  return instruction.opcode == "call" && instruction.operands.size() == 3 &&
         instruction.operands[1].kind == Operand::Kind::reg;
}

}  // namespace microscale::emulator::ptx
