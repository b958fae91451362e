// wgmma: which form it is, and its registers and descriptors.
#include <algorithm>
#include <string>
#include <vector>

#include "emulator/machine/binder.hpp"
#include "emulator/ops/wgmma.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {

using ptx::Operand;
using ptx::Type;
using Kind = Operand::Kind;

namespace {

/// An immediate that must be one of two values: whether it is the second.
bool choice(Binder& b, const Operand& operand, std::int64_t first, std::int64_t second,
            const char* what) {
  std::int64_t value = first;
  if (!b.immediate(operand, value) || (value != first && value != second))
    b.refuse(std::string("has ") + what + " that is neither " + std::to_string(first) + " nor " +
             std::to_string(second));
  return value == second;
}

std::uint32_t descriptor(Binder& b, const Operand& operand) { return b.source(operand, Type::b64); }

/// Registers of 32 bits, none of them twice.
void registers(Binder& b, const Operand& operand, int count, bool writes,
               std::vector<std::uint32_t>& slots) {
  if (operand.kind != Kind::vector || operand.parts.size() != static_cast<std::size_t>(count))
    return b.refuse("has " + std::to_string(operand.parts.size()) + " registers where " +
                    std::to_string(count) + " are needed");
  for (const Operand& part : operand.parts) {
    const std::uint32_t slot = writes ? b.destination(part, Type::b32) : b.source(part, Type::b32);
    if (part.kind == Kind::reg && std::find(slots.begin(), slots.end(), slot) != slots.end())
      b.refuse("names a register twice");
    slots.push_back(slot);
  }
}

/// As `understood` of mma: what the modifiers spell, or the refusal.
bool shape_of(Binder& b, tensor::WgmmaShape& shape) {
  try {
    shape = tensor::wgmma_shape(b.in.modifiers);
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    const std::size_t cause = message.find(": ");
    b.refuse("is refused: " + message.substr(cause == std::string::npos ? 0 : cause + 2));
    return false;
  }
}

void multiply(Binder& b) {
  while (!b.take_next().empty()) {
  }
  WgmmaInstruction what;
  if (!shape_of(b, what.shape)) return;
  const tensor::WgmmaShape& shape = what.shape;
  const int bits = container_bits(tensor::Kind::plain, shape.a);
  const bool floats = shape.d != tensor::Result::s32, halves = bits == 16;
  what.a_in_registers = b.operand(1).kind == Kind::vector;
  const std::size_t wanted =
      4 + (floats ? 2u : 0u) + (halves ? (what.a_in_registers ? 1u : 2u) : 0u);
  if (b.count() != wanted)
    return b.refuse("has " + std::to_string(b.count()) + " operands where " +
                    std::to_string(wanted) + " are needed");
  std::vector<std::uint32_t> slots;
  // Fragments of A first, so that what only scale-d makes a read comes last.
  std::vector<std::uint32_t> fragments;
  if (what.a_in_registers)
    registers(b, b.operand(1), 4, false, fragments);
  else
    fragments.push_back(descriptor(b, b.operand(1)));
  const std::uint32_t other = descriptor(b, b.operand(2));
  b.op.c = b.predicate(b.operand(3), 1);
  registers(b, b.operand(0), shape.d_registers(), true, slots);
  if (b.refused()) return;
  for (const Operand& part : b.operand(0).parts)
    if (part.kind != Kind::reg) return b.refuse("has an accumulator that is no register");
  for (const std::uint32_t slot : fragments)
    if (what.a_in_registers && std::find(slots.begin(), slots.end(), slot) != slots.end())
      return b.refuse("names a register as accumulator and in A");
  slots.insert(slots.end(), fragments.begin(), fragments.end());
  slots.push_back(other);
  for (const std::uint32_t reg : b.info.writes) b.info.reads.push_back(reg);
  b.info.late_reads = static_cast<std::uint32_t>(b.info.writes.size());
  std::size_t at = 4;
  if (floats) {
    what.options.negate_a = choice(b, b.operand(at++), 1, -1, "an imm-scale-a");
    what.options.negate_b = choice(b, b.operand(at++), 1, -1, "an imm-scale-b");
  }
  if (halves && !what.a_in_registers)
    what.options.mn_major_a = choice(b, b.operand(at++), 0, 1, "an imm-trans-a");
  if (halves) what.options.mn_major_b = choice(b, b.operand(at++), 0, 1, "an imm-trans-b");
  if (b.refused()) return;
  b.lists(slots);
  b.op.value = what.pack();
  b.use("wgmma.mma");
}

}  // namespace

bool decode_wgmma(Binder& b) {
  if (b.in.opcode != "wgmma") return false;
  if (!b.in.modifiers.empty()) {  // "wgmma.mma_async", as it stands in the text
    const std::string_view first = b.in.modifiers.front();
    b.info.opcode = {b.in.opcode.data(),
                     static_cast<std::size_t>(first.data() + first.size() - b.in.opcode.data())};
  }
  if (!b.in.has("sync") || !b.in.has("aligned")) return b.refuse("needs .sync.aligned"), true;
  if (b.in.has("mma_async")) return multiply(b), true;
  b.take("sync");
  b.take("aligned");
  const std::string_view what = b.take_one_of({"fence", "commit_group", "wait_group"});
  if (what == "wait_group" && (!b.immediate(b.operand(0), b.op.value) || b.op.value < 0))
    b.refuse("needs a number of groups");
  if (b.count() != (what == "wait_group" ? 1u : 0u)) b.refuse("has operands that it cannot have");
  b.use(what == "fence"          ? "wgmma.fence"
        : what == "commit_group" ? "wgmma.commit"
        : what == "wait_group"   ? "wgmma.wait"
                                 : "wgmma");
  return true;
}

}  // namespace microscale::emulator
