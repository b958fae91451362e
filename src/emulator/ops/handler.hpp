// What every instruction is to the machine: an Op, decoded once, and a handler that performs it for
// some lanes of a warp. Families (ops/*.cpp) offer handlers by a key, "add.f32.ftz"; machine/decode
// composes the key from opcode, modifiers and types, and binds the operands.
//
// An operand is a slot: a row of 32 lanes, u32[32] for registers up to 32 bits (narrower values are
// kept zero-extended), u64[32] for 64-bit ones, two of those for 128-bit ones, the low halves
// first. Immediates are rows too, which no instruction writes. A predicate is a 32-bit mask with an
// index; index 0 is always true, 1 always false.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "emulator/memory/access.hpp"

namespace microscale::emulator {

class Warp;
struct Op;

/// What happened, for the loop that runs a warp.
enum class Step : std::uint8_t {
  next,  // performed; go on behind it
  jump,  // performed, and the handler has set where the warp goes on (or the warp has ended)
  wait,  // not performed: park these lanes here and try again when something has changed
  stop,  // a fatal finding was reported
};

/// `lanes` is never 0 and already includes the guard.
using Handler = Step (*)(const Op& op, Warp& warp, std::uint32_t lanes);

/// Where a row is. Of the warp's own rows: the offset in bytes. Of the program's constants: the
/// offset less constants_bias, which makes it odd (constant_slot), so that one addition finds
/// either.
using Slot = std::uint32_t;
inline constexpr Slot constant_slot = 1;
inline constexpr Slot row_bytes_64 = 256;  // of u64[32]: where the high halves of 128 bits begin
inline constexpr Slot constants_bias = 63;
inline constexpr std::uint32_t always = 0, never = 1;  // predicate indexes

enum OpFlags : std::uint8_t {
  checks_reads = 1,    // some source may be unwritten: look at the written masks
  tracks_writes = 2,   // some later read of the destination needs its written mask
  touches_matrix = 4,  // a register that some wgmma or tcgen05.ld has for a while
  decides = 8,         // its operands must be defined: what it does cannot be undone or dropped
};

struct alignas(64) Op {
  Handler run = nullptr;
  const std::uint32_t* list = nullptr;  // `count` slots: vectors, and whatever does not fit below
  std::int64_t value = 0;               // an immediate whose meaning is the handler's
  Slot d = 0, a = 0, b = 0, c = 0;      // predicates: indexes
  std::uint32_t extra = 0;              // a second destination, a branch target
  std::uint32_t guard = always;         // predicate index
  std::uint32_t guard_flip = 0;         // all ones: performed where the guard does not hold
  std::uint8_t flags = 0;
  std::uint8_t negate = 0;  // bits 1, 2, ..: predicate operands, in order
  std::uint8_t mode = 0;    // a small selector, the handler's
  std::uint8_t count = 0;
};

/// What one entry of a family's table says.
struct HandlerEntry {
  std::string_view key;
  Handler run;
};

/// The handler of that key, the fastest this CPU has; null if there is none.
Handler find_handler(std::string_view key);
Handler find_handler(std::string_view key, bool avx2);  // of that set, which the CPU must have

/// The rows and masks that handlers work on; Warp adds the rest (machine/warp.hpp).
struct WarpRows {
  std::uint8_t* base[2] = {};           // own rows, constants + constants_bias
  std::uint32_t* predicates = nullptr;  // masks

  std::uint8_t* row(Slot slot) const { return base[slot & constant_slot] + slot; }
  std::uint32_t* row32(Slot slot) const { return reinterpret_cast<std::uint32_t*>(row(slot)); }
  std::uint64_t* row64(Slot slot) const { return reinterpret_cast<std::uint64_t*>(row(slot)); }
  /// A predicate operand, `position` as in Op::negate.
  std::uint32_t predicate(const Op& op, std::uint32_t index, int position) const {
    return predicates[index] ^ ((op.negate >> position & 1) ? ~0u : 0u);
  }
  void set_predicate(std::uint32_t index, std::uint32_t lanes, std::uint32_t mask) const {
    predicates[index] = (predicates[index] & ~lanes) | (mask & lanes);
  }
};

}  // namespace microscale::emulator
