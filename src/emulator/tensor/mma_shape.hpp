// One spelling of mma.sync or wgmma as data: what its modifiers say about types, sizes and scales.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace microscale::emulator::tensor {

/// Of an element of A or B.
enum class Operand : std::uint8_t {
  f16,
  bf16,
  tf32,
  s8,
  u8,
  e4m3,
  e5m2,
  e3m2,
  e2m3,
  e2m1,
  s4,
  u4,
  b1,
  f64
};
/// Of C and D.
enum class Result : std::uint8_t { f32, f16, s32, f64 };
enum class ScaleType : std::uint8_t { none, ue8m0, ue4m3 };
enum class Kind : std::uint8_t { plain, f8f6f4, mxf8f6f4, mxf4, mxf4nvf4 };

/// Whose tensor cores: Hopper runs FP8 mma.sync as FP16 and sums FP8 wgmma with 13 fraction bits.
enum class Generation : std::uint8_t { hopper, blackwell };

/// Of f64 sums.
enum class Rounding : std::uint8_t { nearest, zero, down, up };

struct MmaShape {
  Kind kind = Kind::plain;
  int m = 16, n = 8, k = 16;
  Operand a = Operand::f16, b = Operand::f16;
  Result c = Result::f32, d = Result::f32;
  ScaleType scale = ScaleType::none;
  int scale_vector = 0;                   // scales along K: 0 (none), 1, 2 or 4
  bool saturate = false;                  // s32 only
  bool ands = false;                      // b1: bits of a & b are counted, else of a ^ b
  Rounding rounding = Rounding::nearest;  // f64 only

  bool operator==(const MmaShape&) const = default;
};

/// Bits that an element takes in a register: 4, 8, 16 or 32.
constexpr int container_bits(Kind kind, Operand type) {
  switch (type) {
    case Operand::f64:
      return 64;
    case Operand::tf32:
      return 32;
    case Operand::s4:
    case Operand::u4:
      return 4;
    case Operand::b1:
      return 1;
    case Operand::f16:
    case Operand::bf16:
      return 16;
    case Operand::e2m1:
      return kind == Kind::mxf4 || kind == Kind::mxf4nvf4 ? 4 : 8;
    default:
      return 8;
  }
}

/// Bits of a container that must be zero: around the FP4 code in bits 5-2, above the FP6 code.
constexpr std::uint8_t padding_mask(Kind kind, Operand type) {
  if (container_bits(kind, type) != 8) return 0;
  if (type == Operand::e2m1) return 0xC3;
  return type == Operand::e3m2 || type == Operand::e2m3 ? 0xC0 : 0;
}

/// How far a code is shifted up inside its container.
constexpr int container_shift(Kind kind, Operand type) {
  return type == Operand::e2m1 && container_bits(kind, type) == 8 ? 2 : 0;
}

/// Registers of each lane: of 32 bits, of f64 64.
constexpr int register_share(Kind kind, Operand type) {  // elements that 32 lanes' registers hold
  return type == Operand::f64 ? 32 : 1024 / container_bits(kind, type);
}
constexpr int a_registers(const MmaShape& s) { return s.m * s.k / register_share(s.kind, s.a); }
constexpr int b_registers(const MmaShape& s) { return s.n * s.k / register_share(s.kind, s.b); }
constexpr int result_registers(const MmaShape& s, Result type) {
  return s.m * s.n / (type == Result::f16 ? 64 : 32);
}

std::string_view name_of(Operand type);    // "e2m1"
std::string_view name_of(Result type);     // "f32"
std::string_view name_of(ScaleType type);  // "ue8m0"; "none"
std::string_view name_of(Kind kind);       // "mxf4nvf4"; "plain"

/// The shape that the modifiers of an `mma` spell ("sync", "kind::mxf4", "m16n8k64", "e2m1", ...).
/// Throws Error{unsupported} for one that PTX does not have, saying what is wrong with it.
MmaShape mma_shape(std::span<const std::string_view> modifiers);

/// The whole mnemonic: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32".
std::string spelling(const MmaShape& shape);

}  // namespace microscale::emulator::tensor
