// One micro-kernel for every spelling of an instruction that a lane computes by itself or with its
// warp: PTX text, operands that hit the corners, and the bits that came out. `gpu_check ptx` runs
// them on a GPU and in the emulator; the emulator's tests replay what the GPU said.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace microscale::opcode_cases {

/// How an operand's bits are chosen, and its width.
enum class Kind : std::uint8_t {
  none,
  i8,
  i16,
  i32,
  i64,
  nonzero16,
  nonzero32,
  nonzero64,
  shift,
  f16,
  bf16,
  f32,
  f64,
  f16x2,
  bf16x2,
  lane,
  byte_pair,
  pred
};

struct Case {
  std::string name;  // as PTX spells it
  std::string body;  // $d, $a, $b, $c: registers of the kinds below; $p, $q: predicates
  Kind d = Kind::none, a = Kind::none, b = Kind::none, c = Kind::none;
};

inline int bits_of(Kind kind) {
  switch (kind) {
    case Kind::none:
      return 0;
    case Kind::i16:
    case Kind::nonzero16:
    case Kind::f16:
    case Kind::bf16:
    case Kind::byte_pair:
      return 16;
    case Kind::i64:
    case Kind::nonzero64:
    case Kind::f64:
      return 64;
    default:
      return 32;
  }
}

inline std::uint64_t mix(std::uint64_t x) {  // splitmix64's finalizer
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// The bits of a float format with that many exponent and mantissa bits: corners, values near one
/// another, and anything.
inline std::uint64_t float_bits(std::uint64_t r, int exponent, int mantissa) {
  const std::uint64_t sign = (r >> 63) << (exponent + mantissa), ones = (1ull << exponent) - 1;
  const std::uint64_t fraction = (r >> 8) & ((1ull << mantissa) - 1);
  const std::uint64_t bias = ones / 2, pick = r & 15;
  switch (pick) {
    case 0:
      return sign;  // zero
    case 1:
      return sign | ones << mantissa;  // infinity
    case 2:
      return sign | ones << mantissa | fraction | 1;  // NaN
    case 3:
      return sign | fraction;  // subnormal
    case 4:
      return sign | (ones - 1) << mantissa | fraction;  // largest
    case 5:
      return sign | bias << mantissa;  // one
    case 6:
      return sign | (1 + (r >> 4) % 3) << mantissa | fraction;  // just normal
    case 7:
      return sign | (ones / 2 + (r >> 4) % 16) << mantissa | (fraction & (fraction << 3));
    default:
      if (pick < 13) return sign | (bias - 8 + (r >> 4) % 16) << mantissa | fraction;  // near one
      return sign | ((r >> 4) % ones) << mantissa | fraction;
  }
}

inline std::uint64_t operand(Kind kind, std::uint64_t seed) {
  const std::uint64_t r = mix(seed), s = mix(r);
  const auto integer = [&](int bits) -> std::uint64_t {
    const std::uint64_t all = bits == 64 ? ~0ull : (1ull << bits) - 1;
    const std::array<std::uint64_t, 8> corners = {0,       1, 2, all, all >> 1, (all >> 1) + 1,
                                                  all - 1, 7};
    return (r & 3) == 0 ? corners[s & 7] : (r & 3) == 1 ? (s >> (r % 61)) & all : s & all;
  };
  const auto both = [&](int exponent, int mantissa) {
    return float_bits(r, exponent, mantissa) | float_bits(s, exponent, mantissa) << 16;
  };
  switch (kind) {
    case Kind::none:
      return 0;
    case Kind::i8:
      return integer(8);
    case Kind::i16:
      return integer(16);
    case Kind::nonzero16:
      return integer(16) ? integer(16) : 3;
    case Kind::i32:
      return integer(32);
    case Kind::nonzero32:
      return integer(32) ? integer(32) : 3;
    case Kind::i64:
      return integer(64);
    case Kind::nonzero64:
      return integer(64) ? integer(64) : 3;
    case Kind::shift:
      return (r & 7) == 0 ? s & 0xffffffff : s % 80;
    case Kind::lane:
      return s % 40;
    case Kind::pred:
      return r & 1;
    case Kind::byte_pair:
      return s & 0xffff;
    case Kind::f16:
      return float_bits(r, 5, 10);
    case Kind::bf16:
      return float_bits(r, 8, 7);
    case Kind::f32:
      return float_bits(r, 8, 23);
    case Kind::f64:
      return float_bits(r, 11, 52);
    case Kind::f16x2:
      return both(5, 10);
    case Kind::bf16x2:
      return both(8, 7);
  }
  return 0;
}

inline constexpr int operand_bytes = 32, result_bytes = 8;  // of one case in memory

/// Operands of `count` threads: a, b, c at 0, 8 and 16.
inline std::vector<std::uint8_t> operands_of(const Case& one, int count) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * operand_bytes);
  std::uint64_t name = 0;
  for (char letter : one.name) name = mix(name ^ static_cast<unsigned char>(letter));
  for (int i = 0; i < count; ++i) {
    const Kind kinds[3] = {one.a, one.b, one.c};
    for (int k = 0; k < 3; ++k) {
      const std::uint64_t value = operand(
          kinds[k], mix(name + static_cast<std::uint64_t>(k)) + static_cast<std::uint64_t>(i));
      std::memcpy(&bytes[static_cast<std::size_t>(i * operand_bytes + 8 * k)], &value, 8);
    }
  }
  return bytes;
}

/// An entry `name` with one parameter of two addresses, operands and results; a thread a case.
inline std::string entry(const Case& one, const std::string& name) {
  const auto reg = [](Kind kind, int number) {
    const int bits = bits_of(kind);
    return fmt::format("%{}{}", bits == 16 ? "h" : bits == 64 ? "rd" : "r", number);
  };
  std::string body = one.body;
  const std::pair<const char*, std::string> names[] = {
      {"$d", reg(one.d, 10)}, {"$a", reg(one.a, 11)}, {"$b", reg(one.b, 12)},
      {"$c", reg(one.c, 13)}, {"$p", "%p1"},          {"$q", "%p2"}};
  for (const auto& [from, to] : names)
    for (std::size_t at; (at = body.find(from)) != std::string::npos;) body.replace(at, 2, to);
  std::string text = fmt::format(
      ".visible .entry {}(.param .align 8 .b8 args[16])\n{{\n"
      "  .reg .pred %p<3>;\n  .reg .b16 %h<16>;\n  .reg .b32 %r<16>;\n  .reg .b64 %rd<16>;\n"
      "  ld.param.u64 %rd1, [args];\n  ld.param.u64 %rd2, [args+8];\n"
      "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n"
      "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
      "  mul.wide.s32 %rd3, %r4, {};\n  add.s64 %rd3, %rd3, %rd1;\n"
      "  mul.wide.s32 %rd4, %r4, {};\n  add.s64 %rd4, %rd4, %rd2;\n",
      name, operand_bytes, result_bytes);
  int at = 0;
  for (Kind kind : {one.a, one.b, one.c}) {
    if (kind != Kind::none)
      text += fmt::format("  ld.global.b{} {}, [%rd3+{}];\n", bits_of(kind), reg(kind, 11 + at),
                          8 * at);
    if (kind == Kind::pred)
      text += fmt::format("  setp.ne.u32 %p{}, %r{}, 0;\n", at == 0 ? 1 : 2, 11 + at);
    ++at;
  }
  text += "  " + body + "\n";
  return text +
         fmt::format("  st.global.b{} [%rd4], {};\n  ret;\n}}\n\n", bits_of(one.d), reg(one.d, 10));
}

/// A module of these cases, entries case_0, case_1, ...
inline std::string module_text(const std::vector<Case>& cases, const char* target) {
  std::string text = fmt::format(".version 9.0\n.target {}\n.address_size 64\n\n", target);
  for (std::size_t i = 0; i < cases.size(); ++i) text += entry(cases[i], fmt::format("case_{}", i));
  return text;
}

}  // namespace microscale::opcode_cases
