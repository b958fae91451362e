#include "emulator/machine/matrix_registers.hpp"

#include <algorithm>

namespace microscale::emulator {

void mark_matrix_registers(Program& program) {
  static const Handler multiply = find_handler("wgmma.mma"), load = find_handler("tcgen05.ld");
  constexpr std::uint32_t none = ~0u;
  std::vector<std::uint32_t> index_of(program.register_count, none);
  const auto take = [&](const ProgramFunction& function, std::uint32_t reg, bool accumulates) {
    const std::uint32_t slot = function.slots[reg - function.first_register];
    if (function.bits[reg - function.first_register] != 32) return;
    if (index_of[reg] == none) {
      index_of[reg] = static_cast<std::uint32_t>(program.matrix_registers.size());
      program.matrix_registers.push_back({reg, slot, accumulates});
    }
    program.matrix_registers[index_of[reg]].accumulates |= accumulates;
  };
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    const bool multiplies = program.code[pc].run == multiply;
    if (!multiplies && program.code[pc].run != load) continue;
    OpInfo& info = program.info[pc];
    info.own_matrix = true;
    const ProgramFunction& function = program.functions[info.function];
    for (const std::uint32_t reg : info.writes) take(function, reg, true);
    for (const std::uint32_t reg : info.reads)
      if (multiplies) take(function, reg, false);
  }
  if (program.matrix_registers.empty()) return;
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    OpInfo& info = program.info[pc];
    for (const std::uint32_t reg : info.writes)
      if (index_of[reg] != none) info.matrix.push_back({index_of[reg], true});
    const std::size_t written = info.matrix.size();
    for (const std::uint32_t reg : info.reads) {
      const bool also_written = std::any_of(
          info.matrix.begin(), info.matrix.begin() + static_cast<std::ptrdiff_t>(written),
          [&](const MatrixUse& use) { return use.index == index_of[reg]; });
      if (index_of[reg] != none && !also_written) info.matrix.push_back({index_of[reg], false});
    }
    if (!info.matrix.empty()) program.code[pc].flags |= touches_matrix;
  }
}

const std::string& name_of(const Program& program, const MatrixRegister& matrix_register) {
  const auto after = std::find_if(
      program.functions.begin(), program.functions.end(), [&](const ProgramFunction& each) {
        return matrix_register.reg - each.first_register < each.registers.size();
      });
  return after->registers[matrix_register.reg - after->first_register];
}

}  // namespace microscale::emulator
