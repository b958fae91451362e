#include "emulator/ptx/listing_regions.hpp"

#include <algorithm>

namespace microscale::emulator::ptx {
namespace {

using Kind = Operand::Kind;

// Nothing is known of which operands an opcode writes, so the first one counts as both.
void add_places(const Operand& operand, std::uint32_t at, bool written,
                std::vector<Places>& places) {
  const bool base = operand.kind == Kind::address && operand.base == Kind::reg;
  if (base) places[operand.index].reads.push_back(at);
  if (operand.kind == Kind::reg) {
    (written ? places[operand.index].writes : places[operand.index].reads).push_back(at);
  }
  for (const Operand& part : operand.parts) add_places(part, at, written, places);
}

}  // namespace

std::vector<Places> places_of(const Function& body) {
  std::vector<Places> places(body.registers.size());
  for (std::uint32_t at = 0; at < body.code.size(); ++at) {
    const Instruction& in = body.code[at];
    const bool writes = in.opcode != "st" && in.opcode != "red";
    const std::size_t results = !writes ? 0 : in.two_predicates ? 2 : 1;
    for (std::size_t i = 0; i < in.operands.size(); ++i)
      add_places(in.operands[i], at, i < results, places);
    if (in.guard.present) places[in.guard.reg].reads.push_back(at);
  }
  return places;
}

Regions::Regions(const Function& body) {
  const auto is_jump = [](const Instruction& in) {
    return in.opcode == "bra" && !in.operands.empty() && in.operands[0].kind == Kind::label;
  };
  for (std::uint32_t at = 0; at < body.code.size(); ++at) {
    const Instruction& in = body.code[at];
    has_table_ = has_table_ || in.opcode == "brx";
    if (!is_jump(in) || !in.guard.present) continue;
    const std::uint32_t target = in.operands[0].index;
    if (target <= at) {  // a loop: the lanes that stay in it run it together
      branches_.push_back({in.guard.reg, target, at + 1, at + 1});
      continue;
    }
    Branch branch{in.guard.reg, at + 1, target, target};
    for (std::uint32_t inside = at + 1; inside < branch.to && inside < body.code.size(); ++inside) {
      const Instruction& each = body.code[inside];
      if (is_jump(each)) branch.to = std::max(branch.to, each.operands[0].index);
    }
    branches_.push_back(branch);
  }
}

bool Regions::keeps_apart(const Branch& branch, std::uint32_t write, std::uint32_t read) {
  const auto side = [&](std::uint32_t at) {
    if (at < branch.from || at >= branch.to) return 0;
    return at < branch.middle ? 1 : 2;
  };
  return side(write) == 0 || side(write) == side(read);
}

bool Regions::keeps_apart(const Branch& branch, const Places& places) {
  return std::ranges::all_of(places.writes, [&](std::uint32_t write) {
    return std::ranges::all_of(
        places.reads, [&](std::uint32_t read) { return keeps_apart(branch, write, read); });
  });
}

}  // namespace microscale::emulator::ptx
