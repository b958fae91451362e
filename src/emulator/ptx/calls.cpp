#include "emulator/ptx/calls.hpp"

#include <algorithm>

namespace microscale::emulator::ptx {

bool may_call(const Function& caller, const Instruction& call, const Function& callee) {
  const auto agree = [&](const Operand& actual, const std::vector<Variable>& formal) {
    return std::equal(actual.parts.begin(), actual.parts.end(), formal.begin(), formal.end(),
                      [&](const Operand& given, const Variable& taken) {
                        return caller.variables[given.index].bytes == taken.bytes;
                      });
  };
  return callee.has_body && !callee.entry && agree(call.operands[0], callee.results) &&
         agree(call.operands[2], callee.params);
}

}  // namespace microscale::emulator::ptx
