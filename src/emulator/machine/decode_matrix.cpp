// mma, wmma, ldmatrix, stmatrix, movmatrix: what their modifiers say is asked of tensor/, which
// knows the forms there are.
#include <string>
#include <vector>

#include "emulator/machine/memory_words.hpp"
#include "emulator/ops/address.hpp"
#include "emulator/ops/matrix.hpp"
#include "emulator/ops/wmma.hpp"
#include "emulator/tensor/ldmatrix.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {

using ptx::Operand;
using ptx::Space;
using ptx::Type;
using Kind = Operand::Kind;

namespace {

/// Calls parse(modifiers); its Error becomes the refusal.
template <class Parse>
auto understood(Binder& b, Parse&& parse) -> decltype(parse(b.in.modifiers)) {
  while (!b.take_next().empty()) {
  }
  try {
    if (!b.in.has("sync") || !b.in.has("aligned"))
      throw Error(ErrorCode::unsupported, ": needs .sync.aligned");
    return parse(b.in.modifiers);
  } catch (const Error& error) {
    const std::string message = error.what();
    const std::size_t cause = message.find(": ");
    b.refuse("is refused: " + message.substr(cause == std::string::npos ? 0 : cause + 2));
    return {};
  }
}

/// The registers of a vector, or of one register written alone, appended to `slots`.
void bind_registers(Binder& b, const Operand& operand, int count, bool writes,
                    std::vector<std::uint32_t>& slots, Type type = Type::b32) {
  const std::vector<Operand> parts =
      operand.kind == Kind::vector ? operand.parts : std::vector<Operand>{operand};
  if (parts.size() != static_cast<std::size_t>(count))
    return b.refuse("has " + std::to_string(parts.size()) + " registers where " +
                    std::to_string(count) + " are needed");
  for (const Operand& part : parts)
    slots.push_back(writes ? b.destination(part, type) : b.source(part, type));
}

/// {byte-id, thread-id}
void bind_selector(Binder& b, const Operand& operand, std::vector<std::uint32_t>& slots) {
  if (operand.kind != Kind::vector || operand.parts.size() != 2)
    return b.refuse("has no scale selector {byte-id, thread-id} where one is needed");
  for (const Operand& part : operand.parts) slots.push_back(b.source(part, Type::b16));
}

tensor::Generation generation_of(const Binder& b) {
  return b.module().target().starts_with("sm_1") ? tensor::Generation::blackwell
                                                 : tensor::Generation::hopper;
}

void multiply(Binder& b) {
  const tensor::MmaShape shape =
      understood(b, [](const auto& words) { return tensor::mma_shape(words); });
  if (b.refused()) return;
  const bool scaled = shape.scale != tensor::ScaleType::none;
  if (b.count() != (scaled ? 8u : 4u))
    return b.refuse(scaled ? "needs D, A, B, C, and for A and B a scale and its selector"
                           : "needs D, A, B and C");
  std::vector<std::uint32_t> slots;
  const bool wide = shape.a == tensor::Operand::f64;
  const Type type = wide ? Type::b64 : Type::b32;
  bind_registers(b, b.operand(0), result_registers(shape, shape.d), true, slots, type);
  bind_registers(b, b.operand(1), a_registers(shape), false, slots, type);
  bind_registers(b, b.operand(2), b_registers(shape), false, slots, type);
  bind_registers(b, b.operand(3), result_registers(shape, shape.c), false, slots, type);
  for (std::size_t at = 4; scaled && at < 8; at += 2) {
    bind_registers(b, b.operand(at), 1, false, slots);
    bind_selector(b, b.operand(at + 1), slots);
  }
  if (b.refused()) return;
  b.lists(slots);
  b.op.value = MatrixInstruction{shape, generation_of(b)}.pack();
  b.use(wide ? "mma.f64" : "mma");
}

void move_matrix(Binder& b, bool loads) {
  const tensor::MatrixMove move = understood(b, [&](const auto& words) {
    return loads ? tensor::ldmatrix_move(words) : tensor::stmatrix_move(words);
  });
  if (b.refused()) return;
  const Space space =
      b.in.has("shared") || b.in.has("shared::cta") ? Space::shared : Space::generic;
  const BoundAddress bound = bind_address(b, b.operand(loads ? 1 : 0), space);
  if (b.refused()) return;
  std::vector<std::uint32_t> slots;
  bind_registers(b, b.operand(loads ? 0 : 1), registers_of(move), loads, slots);
  if (b.refused()) return;
  b.lists(slots);
  b.op.a = bound.slot;
  b.op.value = bound.offset;
  b.op.mode = pack_move(move);
  b.op.extra = AccessBits::make(space, bound.wide, 2, false, 1, Order::weak, MemoryScope::sys).bits;
  b.use(loads ? "ldmatrix" : "stmatrix");
}

// wmma.load r, [p]{, stride} and wmma.store [p], r{, stride}.
void wmma_move(Binder& b, bool loads) {
  const tensor::WmmaMove move =
      understood(b, [](const auto& words) { return tensor::wmma_move(words); });
  if (b.refused()) return;
  if (loads == (move.matrix == tensor::WmmaMatrix::d))
    return b.refuse("loads A, B or C and stores D");
  const Space space = b.in.has("global")                              ? Space::global
                      : b.in.has("shared") || b.in.has("shared::cta") ? Space::shared
                                                                      : Space::generic;
  const BoundAddress bound = bind_address(b, b.operand(loads ? 1 : 0), space);
  const tensor::Coordinate extent = wmma_extent(move.shape, move.matrix);
  b.op.b = b.count() > 2 ? b.source(2, Type::b32)
                         : b.rows().constant32(static_cast<std::uint32_t>(
                               move.column_major ? extent.row : extent.column));
  std::vector<std::uint32_t> slots;
  bind_registers(b, b.operand(loads ? 0 : 1), wmma_registers(move.shape, move.matrix), loads, slots,
                 wmma_element_bits(move.shape, move.matrix) == 64 ? Type::b64 : Type::b32);
  if (b.refused()) return;
  b.lists(slots);
  b.op.a = bound.slot;
  b.op.value = bound.offset;
  b.op.c = pack_wmma(move.shape, move.matrix);
  b.op.mode = move.column_major;
  b.op.extra = AccessBits::make(space, bound.wide, 2, false, 1, Order::weak, MemoryScope::sys).bits;
  b.use(loads ? "wmma.load" : "wmma.store");
}

void wmma_multiply(Binder& b) {
  using tensor::WmmaMatrix;
  const tensor::WmmaShape shape =
      understood(b, [](const auto& words) { return tensor::wmma_shape(words); });
  if (b.refused()) return;
  if (b.count() != 4) return b.refuse("needs D, A, B and C");
  const Type type = shape.a == tensor::Operand::f64 ? Type::b64 : Type::b32;
  std::vector<std::uint32_t> slots;
  bind_registers(b, b.operand(0), wmma_registers(shape, WmmaMatrix::d), true, slots, type);
  bind_registers(b, b.operand(1), wmma_registers(shape, WmmaMatrix::a), false, slots, type);
  bind_registers(b, b.operand(2), wmma_registers(shape, WmmaMatrix::b), false, slots, type);
  bind_registers(b, b.operand(3), wmma_registers(shape, WmmaMatrix::c), false, slots, type);
  if (b.refused()) return;
  b.lists(slots);
  b.op.c = pack_wmma(shape);
  b.op.mode = static_cast<std::uint8_t>(generation_of(b));
  b.use("wmma.mma");
}

void transpose_matrix(Binder& b) {
  understood(b, [](const auto&) { return 0; });
  if (b.refused()) return;
  if (!b.in.has("m8n8") || !b.in.has("trans") || !b.in.has("b16"))
    return b.refuse("needs .m8n8.trans.b16");
  if (b.count() != 2) return b.refuse("needs D and A");
  std::vector<std::uint32_t> slots;
  bind_registers(b, b.operand(0), 1, true, slots);
  bind_registers(b, b.operand(1), 1, false, slots);
  if (b.refused()) return;
  b.lists(slots);
  b.use("movmatrix");
}

}  // namespace

bool decode_matrix(Binder& b) {
  const std::string_view opcode = b.in.opcode;
  if (opcode == "mma")
    multiply(b);
  else if (opcode == "wmma" && b.in.has("mma"))
    wmma_multiply(b);
  else if (opcode == "wmma")
    wmma_move(b, b.in.has("load"));
  else if (opcode == "ldmatrix" || opcode == "stmatrix")
    move_matrix(b, opcode == "ldmatrix");
  else if (opcode == "movmatrix")
    transpose_matrix(b);
  else
    return false;
  return true;
}

}  // namespace microscale::emulator
