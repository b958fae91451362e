#include "emulator/machine/reachable.hpp"

#include <vector>

namespace microscale::emulator {

bool reaches_work(const Program& program, std::uint32_t from, std::uint32_t begin,
                  std::uint32_t end) {
  const ProgramFunction& function = program.functions[program.info[from].function];
  std::vector<bool> seen(function.end - function.begin);
  std::vector<std::uint32_t> open;
  const auto add = [&](std::uint32_t pc) {
    if (pc < function.begin || pc >= function.end || seen[pc - function.begin]) return;
    seen[pc - function.begin] = true;
    open.push_back(pc);
  };
  add(from + 1);
  while (!open.empty()) {
    const std::uint32_t pc = open.back();
    open.pop_back();
    const Op& op = program.code[pc];
    const std::string_view opcode = program.info[pc].opcode;
    const bool branches = opcode == "bra" || opcode == "brx";
    const bool ends = opcode == "ret" || opcode == "exit" || opcode == "trap";
    if (pc >= begin && pc < end && !branches && !ends) return true;
    if (opcode == "bra") add(op.extra);
    if (opcode == "brx")
      for (const std::uint32_t target : program.branch_tables[op.extra]) add(target);
    if ((!branches && !ends) || op.guard != always) add(pc + 1);
  }
  return false;
}

}  // namespace microscale::emulator
