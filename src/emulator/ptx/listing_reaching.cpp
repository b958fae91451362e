#include "emulator/ptx/listing_reaching.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace microscale::emulator::ptx {
namespace {

// A state holds for each register of several writes: unwritten, the only write + 1, or several.
constexpr std::uint32_t unwritten = 0, several = ~0u;
using State = std::vector<std::uint32_t>;

bool is_jump(const Instruction& in) {
  return in.opcode == "bra" && !in.operands.empty() && in.operands[0].kind == Operand::Kind::label;
}
bool ends(const Instruction& in) {
  return (in.opcode == "bra" || in.opcode == "ret" || in.opcode == "exit") && !in.guard.present;
}

std::uint32_t met(std::uint32_t a, std::uint32_t b) {
  return a == b || b == unwritten ? a : a == unwritten ? b : several;
}

struct Block {
  std::uint32_t from = 0, to = 0;
  std::vector<std::size_t> next;
  State in;
  bool waits = true;  // to be gone through
};

std::vector<Block> blocks_of(const Function& body, std::size_t registers) {
  const auto count = static_cast<std::uint32_t>(body.code.size());
  std::set<std::uint32_t> starts{0};
  for (std::uint32_t at = 0; at < count; ++at) {
    const Instruction& in = body.code[at];
    if (is_jump(in)) starts.insert(in.operands[0].index);
    if (is_jump(in) || ends(in)) starts.insert(at + 1);
  }
  starts.erase(starts.lower_bound(count), starts.end());
  std::vector<Block> blocks;
  for (auto start = starts.begin(); start != starts.end(); ++start) {
    const auto behind = std::next(start);
    blocks.push_back(
        {*start, behind == starts.end() ? count : *behind, {}, State(registers, unwritten), true});
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Instruction& last = body.code[blocks[i].to - 1];
    if (!ends(last) && i + 1 < blocks.size()) blocks[i].next.push_back(i + 1);
    if (!is_jump(last) || last.operands[0].index >= count) continue;
    const auto target = starts.find(last.operands[0].index);
    blocks[i].next.push_back(static_cast<std::size_t>(std::distance(starts.begin(), target)));
  }
  return blocks;
}

}  // namespace

Reaching::Reaching(const Function& body, const std::vector<Places>& places) {
  const auto has_table = [](const Instruction& in) { return in.opcode == "brx"; };
  if (body.code.empty() || std::ranges::any_of(body.code, has_table)) return;
  // By instruction: the registers of several writes that it reads and writes, by their place in a
  // state.
  std::vector<std::uint32_t> registers;
  std::vector<std::vector<std::uint32_t>> reads(body.code.size()), writes(body.code.size());
  for (std::uint32_t reg = 0; reg < places.size(); ++reg) {
    if (places[reg].writes.size() < 2) continue;
    for (const std::uint32_t at : places[reg].reads)
      reads[at].push_back(static_cast<std::uint32_t>(registers.size()));
    for (const std::uint32_t at : places[reg].writes)
      writes[at].push_back(static_cast<std::uint32_t>(registers.size()));
    registers.push_back(reg);
  }
  const auto pass = [&](std::uint32_t at, State& state) {
    for (const std::uint32_t each : writes[at])
      state[each] = body.code[at].guard.present ? met(state[each], at + 1) : at + 1;
  };
  std::vector<Block> blocks = blocks_of(body, registers.size());
  for (bool more = true; more;) {
    more = false;
    for (Block& block : blocks) {
      if (!std::exchange(block.waits, false)) continue;
      State state = block.in;
      for (std::uint32_t at = block.from; at < block.to; ++at) pass(at, state);
      for (const std::size_t each : block.next) {
        Block& next = blocks[each];
        State both(state.size());
        std::ranges::transform(next.in, state, both.begin(), met);
        if (both == next.in) continue;
        next.in = std::move(both);
        more = next.waits = true;
      }
    }
  }
  for (Block& block : blocks) {
    for (std::uint32_t at = block.from; at < block.to; ++at) {
      for (const std::uint32_t each : reads[at])
        if (block.in[each] != unwritten && block.in[each] != several)
          writes_.emplace(key(registers[each], at), block.in[each] - 1);
      pass(at, block.in);
    }
  }
}

std::optional<std::uint32_t> Reaching::only_write(std::uint32_t reg, std::uint32_t at) const {
  const auto found = writes_.find(key(reg, at));
  return found == writes_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace microscale::emulator::ptx
