// tcgen05: which form it is, and its addresses, descriptors and registers.
#include <string>
#include <vector>

#include "emulator/machine/memory_words.hpp"
#include "emulator/memory/tensor_memory.hpp"
#include "emulator/ops/tcgen05.hpp"

namespace microscale::emulator {

using ptx::Operand;
using ptx::Space;
using ptx::Type;
using Kind = Operand::Kind;

namespace {

/// 1 or 2; refuses another than the program's other instructions have, as ptxas does.
int cta_group(Binder& b) {
  const std::string_view word = b.take_one_of({"cta_group::1", "cta_group::2"});
  if (word.empty()) return b.refuse("needs .cta_group::1 or .cta_group::2"), 1;
  const int blocks = word.back() - '0';
  int& all = b.program().cta_group;
  if (all != 0 && all != blocks)
    b.refuse("has another .cta_group than the kernel's other tcgen05 instructions");
  all = blocks;
  return blocks;
}

bool sync_aligned(Binder& b) {
  const bool both = b.take("sync") && b.take("aligned");
  if (!both) b.refuse("needs .sync.aligned");
  return both;
}

/// [register + offset], or a plain register where the instruction takes one: row and offset.
struct Place {
  Slot slot = 0;
  std::uint32_t offset = 0;
};
Place tensor_address(Binder& b, const Operand& operand) {
  if (operand.kind != Kind::address) return b.refuse("needs a tensor memory address, [a]"), Place{};
  const BoundAddress bound = bind_address(b, operand, Space::shared);
  if (bound.wide) b.refuse("has a tensor memory address of other than 32 bits");
  return {bound.slot, static_cast<std::uint32_t>(bound.offset)};
}

/// An address of shared memory in Op::a, mode and value, as mbarrier_address() has it.
void shared_address(Binder& b, std::size_t position, Space space) {
  const BoundAddress bound = bind_address(b, b.operand(position), space);
  b.op.a = bound.slot;
  b.op.value = bound.offset;
  b.op.mode = static_cast<std::uint8_t>((bound.wide ? 1 : 0) | (space == Space::shared ? 2 : 0));
}

void operands(Binder& b, std::size_t wanted) {
  if (b.count() != wanted)
    b.refuse("has " + std::to_string(b.count()) + " operands where " + std::to_string(wanted) +
             " are needed");
}

/// The number of columns; one that stands in the text must be one that can be.
Slot columns(Binder& b) {
  std::int64_t count = 0;
  if (b.immediate(b.operand(1), count) &&
      (count < TensorMemory::least || count > TensorMemory::columns || (count & (count - 1)) != 0))
    b.refuse("has a number of columns that is no power of two from 32 to 512");
  return b.source(1, Type::u32);
}

void allocate(Binder& b) {
  b.op.extra = static_cast<std::uint32_t>(cta_group(b));
  sync_aligned(b);
  const Space space = b.take("shared::cta") ? Space::shared : Space::generic;
  if (!b.take("b32")) b.refuse("needs .b32");
  operands(b, 2);
  shared_address(b, 0, space);
  b.op.b = columns(b);
  b.use("tcgen05.alloc");
}

void give_back(Binder& b) {
  b.op.extra = static_cast<std::uint32_t>(cta_group(b));
  sync_aligned(b);
  if (!b.take("b32")) b.refuse("needs .b32");
  operands(b, 2);
  b.op.a = b.source(0, Type::u32);
  b.op.b = columns(b);
  b.use("tcgen05.dealloc");
}

void copy(Binder& b) {
  b.op.extra = static_cast<std::uint32_t>(cta_group(b));
  const std::string_view shape =
      b.take_one_of({"128x256b", "4x256b", "128x128b", "64x128b", "32x128b"});
  const std::string_view spread = b.take_one_of({"warpx2::02_13", "warpx2::01_23", "warpx4"});
  operands(b, 2);
  tensor::CopyShape what = tensor::CopyShape::r128x256b;
  if (shape == "128x256b" && spread.empty())
    what = tensor::CopyShape::r128x256b;
  else if (shape == "128x128b" && spread.empty())
    what = tensor::CopyShape::r128x128b;
  else if (shape == "64x128b" && spread == "warpx2::02_13")
    what = tensor::CopyShape::r64x128b_02_13;
  else if (shape == "64x128b" && spread == "warpx2::01_23")
    what = tensor::CopyShape::r64x128b_01_23;
  else if (shape == "32x128b" && spread == "warpx4")
    what = tensor::CopyShape::r32x128b;
  else
    return b.refuse(
        "has a shape that this machine does not have: 128x256b, 128x128b, "
        "64x128b.warpx2::02_13 or ::01_23, 32x128b.warpx4");
  b.op.mode = static_cast<std::uint8_t>(what);
  const Place to = tensor_address(b, b.operand(0));
  b.op.a = to.slot;
  b.op.value = to.offset;
  b.op.b = b.source(1, Type::b64);
  b.use("tcgen05.cp");
}

void commit(Binder& b) {
  b.op.extra = static_cast<std::uint32_t>(cta_group(b));
  if (!b.take("mbarrier::arrive::one")) b.refuse("needs .mbarrier::arrive::one");
  const bool shared = b.take("shared::cluster"), multicast = b.take("multicast::cluster");
  if (!b.take("b64")) b.refuse("needs .b64");
  operands(b, multicast ? 2 : 1);
  // Without .shared::cluster a register of 32 bits is an address of shared memory, too.
  shared_address(b, 0, shared ? Space::shared : Space::generic);
  if (!(b.op.mode & 1)) b.op.mode |= 2;
  if (multicast) {
    b.op.mode |= 8;
    b.op.b = b.source(1, Type::u16);
  }
  b.use("tcgen05.commit");
}

void move(Binder& b, bool loads) {
  sync_aligned(b);
  using enum tensor::TensorShape;
  const std::string_view word =
      b.take_one_of({"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"});
  const tensor::TensorShape shape = word == "32x32b"    ? lanes32x32b
                                    : word == "16x64b"  ? lanes16x64b
                                    : word == "16x128b" ? lanes16x128b
                                    : word == "16x256b" ? lanes16x256b
                                                        : lanes16x32bx2;
  const std::string_view times =
      b.take_one_of({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"});
  if (!b.take("b32")) b.refuse("needs .b32");
  if (word.empty() || times.empty()) return b.refuse("has no shape or no number of repetitions");
  const int repetitions = std::stoi(std::string(times.substr(1)));
  if (repetitions > most_repetitions(shape))
    return b.refuse("is repeated more often than its shape can be");
  const bool halves = shape == lanes16x32bx2;
  operands(b, halves ? 3 : 2);
  const auto count = static_cast<std::size_t>(repetitions * registers_of(shape));
  const Operand& registers = b.operand(loads ? 0 : halves ? 2 : 1);
  if (registers.kind != Kind::vector || registers.parts.size() != count)
    return b.refuse("has " + std::to_string(registers.parts.size()) + " registers where " +
                    std::to_string(count) + " are needed");
  const Place at = tensor_address(b, b.operand(loads ? 1 : 0));
  b.op.a = at.slot;
  b.op.value = at.offset;
  if (halves) {
    std::int64_t split = 0;
    if (!b.immediate(b.operand(loads ? 2 : 1), split) || split < 0 || split > 511)
      return b.refuse("needs a number of columns between its halves");
    b.op.b = static_cast<std::uint32_t>(split);
  }
  std::vector<std::uint32_t> slots;
  for (const Operand& part : registers.parts) {
    if (part.kind == Kind::sink) return b.refuse("has _ in place of a register");
    slots.push_back(loads ? b.destination(part, Type::b32) : b.source(part, Type::b32));
  }
  b.op.mode = static_cast<std::uint8_t>(shape);
  b.op.extra = static_cast<std::uint32_t>(count);
  b.lists(slots);
  b.use(loads ? "tcgen05.ld" : "tcgen05.st");
}

/// The kind's own scale block where the name says none; 0 after a refusal.
int scale_block(Binder& b, tensor::Tcgen05Kind kind) {
  using enum tensor::Tcgen05Kind;
  const std::string_view block = b.take_one_of({"block16", "block32"});
  const std::string_view vector =
      b.take_one_of({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X"});
  int size = block == "block16" ? 16 : 32;
  if (!vector.empty()) size = (kind == mxf8f6f4 ? 32 : 64) / (vector[11] - '0');
  if (!block.empty() && !vector.empty())
    return b.refuse("says the size of its scale blocks twice"), 0;
  if (block.empty() && vector.empty() && kind == mxf4nvf4)
    return b.refuse("needs .block16 or .block32"), 0;
  if (size != 32 && !(size == 16 && kind == mxf4nvf4))
    return b.refuse("has a scale block that its kind does not have"), 0;
  return size;
}

void multiply(Binder& b) {
  using enum tensor::Tcgen05Kind;
  if (b.in.has("sp")) return b.refuse("has a sparse A, which is not modelled");
  Tcgen05Mma what;
  what.name.blocks = cta_group(b);
  constexpr std::pair<std::string_view, tensor::Tcgen05Kind> kinds[] = {
      {"kind::f16", f16},           {"kind::tf32", tf32}, {"kind::f8f6f4", f8f6f4},
      {"kind::mxf8f6f4", mxf8f6f4}, {"kind::mxf4", mxf4}, {"kind::mxf4nvf4", mxf4nvf4}};
  bool known = false;
  for (const auto& [word, kind] : kinds)
    if (b.take(word)) what.name.kind = kind, known = true;
  if (!known) return b.refuse("has no kind that this machine has");
  const bool scaled = is_block_scaled(what.name.kind);
  if (b.take("block_scale") != scaled)
    return b.refuse(scaled ? "needs .block_scale" : "has .block_scale, which its kind has not");
  if (scaled) what.name.scale_block = scale_block(b, what.name.kind);
  // What the collector keeps of A is the same as what stands in memory.
  b.take_one_of({"collector::a::fill", "collector::a::use", "collector::a::lastuse",
                 "collector::a::discard"});
  if (b.count() == (scaled ? 8u : 6u))
    return b.refuse(
        "has an operand more than this machine has: disable-output-lane and "
        "scale-input-d are not modelled");
  operands(b, scaled ? 7 : 5);
  if (b.refused()) return;
  what.name.a_in_tensor = b.operand(1).kind == Kind::address;
  std::vector<std::uint32_t> list(2 * Tcgen05Mma::operands, b.rows().constant32(0));
  const auto put = [&](Tcgen05Mma::Operand operand, const Place& place) {
    list[2 * operand] = place.slot, list[2 * operand + 1] = place.offset;
  };
  put(Tcgen05Mma::d, tensor_address(b, b.operand(0)));
  put(Tcgen05Mma::a,
      what.name.a_in_tensor ? tensor_address(b, b.operand(1)) : Place{b.source(1, Type::b64), 0});
  put(Tcgen05Mma::b, {b.source(2, Type::b64), 0});
  put(Tcgen05Mma::descriptor, {b.source(3, Type::b32), 0});
  if (scaled) {
    put(Tcgen05Mma::scale_a, tensor_address(b, b.operand(4)));
    put(Tcgen05Mma::scale_b, tensor_address(b, b.operand(5)));
  }
  b.op.c = b.predicate(b.operand(scaled ? 6 : 4), 1);
  b.op.value = what.pack();
  b.lists(list);
  b.use("tcgen05.mma");
}

}  // namespace

bool decode_tcgen05(Binder& b) {
  if (b.in.opcode != "tcgen05") return false;
  b.program().tensor_memory = true;
  if (!b.in.modifiers.empty()) {  // "tcgen05.mma", as it stands in the text
    const std::string_view first = b.in.modifiers.front();
    b.info.opcode = {b.in.opcode.data(),
                     static_cast<std::size_t>(first.data() + first.size() - b.in.opcode.data())};
  }
  const std::string_view what = b.take_one_of(
      {"alloc", "dealloc", "relinquish_alloc_permit", "cp", "mma", "commit", "ld", "st", "wait::ld",
       "wait::st", "fence::before_thread_sync", "fence::after_thread_sync"});
  if (what == "alloc") {
    allocate(b);
  } else if (what == "dealloc") {
    give_back(b);
  } else if (what == "relinquish_alloc_permit") {
    b.op.extra = static_cast<std::uint32_t>(cta_group(b));
    sync_aligned(b);
    b.use("tcgen05.relinquish");
  } else if (what == "cp") {
    copy(b);
  } else if (what == "mma") {
    multiply(b);
  } else if (what == "commit") {
    commit(b);
  } else if (what == "ld" || what == "st") {
    move(b, what == "ld");
  } else if (what.starts_with("wait")) {
    sync_aligned(b);
    b.op.mode = what == "wait::ld";
    b.use("tcgen05.wait");
  } else if (what.starts_with("fence")) {
    b.op.mode = what == "fence::before_thread_sync";
    b.use("tcgen05.fence");
  } else {
    b.refuse("is not modelled");
  }
  return true;
}

}  // namespace microscale::emulator
