// cvt, with all its roundings; the formats of 8 bits and less go to ops/cvt_small.cpp.
#include <string>
#include <vector>

#include "emulator/machine/binder.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator {

using ptx::Type;

namespace {

constexpr std::string_view small_formats[] = {"e2m1x2", "e4m3x2", "e5m2x2",
                                              "e2m3x2", "e3m2x2", "ue8m0x2"};

bool is_small(std::string_view word) {
  for (const std::string_view each : small_formats)
    if (each == word) return true;
  return false;
}

// The two formats at the end of the name, and the key of everything between.
void small(Binder& b) {
  std::vector<std::string_view> types;
  for (const std::string_view word : b.in.modifiers)
    if (is_small(word) || word == "f32" || word == "f16x2" || word == "bf16x2")
      types.push_back(word);
  if (types.size() != 2) return b.refuse("does not name two formats that this machine knows");
  const std::string_view to = types[0], from = types[1];
  b.take(to);
  b.take(from);
  std::string key = "small." + std::string(to) + "." + std::string(from);
  const std::string_view rounding = b.take_one_of({"rn", "rz", "rp"});
  const bool scale = to == "ue8m0x2";
  if (scale != (rounding == "rz" || rounding == "rp")) return b.refuse("cannot round so");
  if (scale) key += "." + std::string(rounding);
  const bool satfinite = b.take("satfinite");
  if (!satfinite && is_small(to) && !scale) return b.refuse("needs .satfinite");
  if (satfinite && is_small(from)) return b.refuse("cannot saturate");
  b.op.mode = static_cast<std::uint8_t>((satfinite ? 1 : 0) | (b.take("relu") ? 2 : 0));
  const bool byte = to == "e2m1x2";  // a pair of nibbles
  const Type to_type = byte ? Type::b8 : is_small(to) ? Type::b16 : Type::b32;
  b.op.d = b.destination(b.operand(0), to_type, byte);
  if (from == "f32") {
    b.op.a = b.source(1, Type::f32);
    b.op.b = b.source(2, Type::f32);
  } else {
    b.op.a = b.source(b.operand(1),
                      from == "e2m1x2" ? Type::b8
                      : is_small(from) ? Type::b16
                                       : Type::b32,
                      true);
  }
  b.use(key);
}

std::string rows_key(Binder& b, Type to, Type from) {
  return std::to_string(b.row_bits(b.operand(0), to)) + "." +
         std::to_string(b.row_bits(b.operand(1), from));
}

void between_integers(Binder& b, Type to, Type from) {
  const bool saturate = b.take("sat");
  b.op.value = ptx::bits_of(from) | ptx::bits_of(to) << 8 |
               ((is_signed(from) ? 1 : 0) | (is_signed(to) ? 2 : 0) | (saturate ? 4 : 0)) << 16;
  const ptx::Operand& d = b.operand(0);
  if (d.kind == ptx::Operand::Kind::reg) {
    const int container = ptx::bits_of(b.function().text->registers[d.index].type);
    if (container > ptx::bits_of(to)) b.op.mode = static_cast<std::uint8_t>(container);
  }
  const std::string key = "integer." + rows_key(b, to, from);
  b.op.d = b.destination(d, to, true);
  b.op.a = b.source(b.operand(1), from, true);
  b.use(key);
}

std::int64_t integer_flags(Type type) {
  return ptx::bits_of(type) << 8 | (is_signed(type) ? 1 << 16 : 0);
}

// To FP16 or BF16 in ways that kernels seldom ask for: every rounding and modifier.
void narrow(Binder& b, Type to, Type from, std::string_view rounding, int flags) {
  b.op.mode = static_cast<std::uint8_t>((rounding == "rz"   ? 1
                                         : rounding == "rm" ? 2
                                         : rounding == "rp" ? 3
                                                            : 0) |
                                        (to == Type::bf16 ? 4 : 0));
  b.op.value = flags | (is_float(from) ? 0 : integer_flags(from));
  b.op.d = b.destination(0, to);
  b.op.a = b.source(b.operand(1), from, !is_float(from));
  b.use("narrow." + (is_float(from) ? std::string(ptx::name_of(from))
                                    : "integer." + std::to_string(b.row_bits(b.operand(1), from))));
}

// cvt.pack.sat.s8.s32.b32 d, a, b, c: two integers, saturated, below the low bits of c.
void pack(Binder& b) {
  const std::string_view to = b.take_one_of({"s16", "u16", "s8", "u8", "s4", "u4", "s2", "u2"});
  const int bits = to.size() < 2 ? 0 : to == "s16" || to == "u16" ? 16 : to[1] - '0';
  const bool takes_c = bits < 16;
  if (bits == 0 || !b.take("sat") || !b.take("s32") || b.take("b32") != takes_c)
    return b.refuse("is not known in this form");
  b.op.mode = static_cast<std::uint8_t>(bits);
  b.op.value = to[0] == 's';
  b.op.d = b.destination(0, Type::u32);
  b.op.a = b.source(1, Type::s32);
  b.op.b = b.source(2, Type::s32);
  b.op.c = takes_c ? b.source(3, Type::b32) : b.rows().constant32(0);
  b.use("pack.integers");
}

}  // namespace

bool decode_convert(Binder& b) {
  if (b.in.opcode != "cvt") return false;
  if (b.take("pack")) return pack(b), true;
  for (const std::string_view word : b.in.modifiers)
    if (is_small(word)) return small(b), true;
  Type to = Type::u32, from = Type::u32;
  if (!b.take_type(to) || !b.take_type(from))
    return b.refuse("does not name two types that this machine knows"), true;
  const std::string to_name(ptx::name_of(to)), from_name(ptx::name_of(from));
  if (!is_float(to) && !is_float(from)) return between_integers(b, to, from), true;
  const std::string_view rounding =
      b.take_one_of({"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"});
  const bool integral = rounding.size() == 3 && rounding != "rna";
  const bool ftz = b.take("ftz"), sat = b.take("sat"), relu = b.take("relu"),
             satfinite = b.take("satfinite");
  const bool half = to == Type::f16 || to == Type::bf16;
  const bool directed = rounding == "rz" || rounding == "rm" || rounding == "rp";
  const std::uint8_t host_rounding = rounding == "rz" ? 1 : rounding == "rm" ? 2 : 3;
  std::string key;
  if (!is_float(to)) {
    if (!integral) return b.refuse("needs .rni, .rzi, .rmi or .rpi"), true;
    key = std::string(rounding) + (ftz ? ".ftz." : ".") + from_name;
    b.op.value = ptx::bits_of(to) | (is_signed(to) ? 256 : 0);
    b.op.mode = b.row_bits(b.operand(0), to) == 64;
  } else if (!is_float(from)) {
    if (rounding.empty() || integral) return b.refuse("needs .rn, .rz, .rm or .rp"), true;
    if (half && (directed || sat)) return narrow(b, to, from, rounding, sat), true;
    key = to_name + "." + from_name;
    if (sat) {
      key = "sat." + to_name + "." + std::to_string(b.row_bits(b.operand(1), from));
      b.op.value = integer_flags(from);
    } else if (directed) {
      key = "directed." + key;
      b.op.mode = host_rounding;
    }
  } else if (integral) {
    key = std::string(rounding) + "." + to_name + "." + from_name;
    b.op.mode = static_cast<std::uint8_t>((ftz ? 1 : 0) | (sat ? 2 : 0));
  } else {
    key = to_name + "." + from_name;
    const bool narrows = ptx::bits_of(to) < ptx::bits_of(from) || is_pair(to) || to == Type::tf32;
    if (narrows && rounding.empty()) return b.refuse("needs a rounding"), true;
    const bool loop = from == Type::f32 && !ftz && (rounding == "rn" || rounding == "rz");
    const bool flushes = ftz && to == Type::bf16;  // to FP16 an H200 keeps a subnormal operand
    const int flags = (sat ? 1 : 0) | (relu ? 2 : 0) | (satfinite ? 4 : 0) | (flushes ? 8 : 0);
    if (half && to != from && !loop && (directed || ftz || flags != 0))
      return narrow(b, to, from, rounding, flags), true;
    const bool exact = !narrows && !half && to != from;  // whatever rounding is spelled
    if (ftz && (from == Type::f32 || to == Type::f32) &&
        (from == Type::f64 || to == Type::f64 || to == from || from == Type::bf16))
      key += ".ftz";
    if (sat) key += ".sat";
    if (relu) key += ".relu";
    if (satfinite && to != Type::tf32) key += ".satfinite";
    if (to == Type::f32 && from == Type::f64 && directed) {
      key = "directed." + key;
      b.op.mode = host_rounding;
    } else if (!exact && (rounding == "rz" || rounding == "rna")) {
      key = std::string(rounding) + "." + key;
    } else if (!exact && directed) {
      return b.refuse("cannot round so"), true;
    }
  }
  b.op.d = b.destination(b.operand(0), to == Type::tf32 ? Type::b32 : to, !is_float(to));
  if (is_pair(to) && from == Type::f32) {
    b.op.a = b.source(1, from);
    b.op.b = b.source(2, from);
  } else {
    b.op.a = b.source(b.operand(1), from, !is_float(from));
  }
  b.use(key);
  return true;
}

}  // namespace microscale::emulator
