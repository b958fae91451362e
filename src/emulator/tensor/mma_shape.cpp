// Modifiers to shape and back, with the rules of PTX about which combinations exist.
#include "emulator/tensor/mma_shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <optional>
#include <vector>

#include "microscale/error.hpp"

namespace microscale::emulator::tensor {
namespace {

constexpr std::array<std::string_view, 14> operand_names = {"f16",  "bf16", "tf32", "s8",   "u8",
                                                            "e4m3", "e5m2", "e3m2", "e2m3", "e2m1",
                                                            "s4",   "u4",   "b1",   "f64"};
constexpr std::array<std::string_view, 4> result_names = {"f32", "f16", "s32", "f64"};
constexpr std::array<std::string_view, 4> rounding_names = {"rn", "rz", "rm", "rp"};
constexpr std::array<std::string_view, 3> scale_names = {"none", "ue8m0", "ue4m3"};
constexpr std::array<std::string_view, 5> kind_names = {"plain", "f8f6f4", "mxf8f6f4", "mxf4",
                                                        "mxf4nvf4"};

template <class Type, std::size_t N>
std::optional<Type> find(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<Type>(i);
  return std::nullopt;
}

[[noreturn]] void refuse(std::span<const std::string_view> modifiers, std::string_view why) {
  throw Error(ErrorCode::unsupported, fmt::format("mma.{}: {}", fmt::join(modifiers, "."), why));
}

bool is_fp8(Operand type) { return type == Operand::e4m3 || type == Operand::e5m2; }
bool is_small_float(Operand type) { return type >= Operand::e4m3 && type <= Operand::e2m1; }
bool is_byte(Operand type) { return type == Operand::s8 || type == Operand::u8; }
bool is_nibble(Operand type) { return type == Operand::s4 || type == Operand::u4; }
bool is_integer(Operand type) { return is_byte(type) || is_nibble(type) || type == Operand::b1; }

/// Integers of 8, 4 and 1 bits: `k` of m8n8, and its double and fourfold of m16n8.
std::string_view integer_fault(const MmaShape& s) {
  const bool bits = s.a == Operand::b1;
  if (bits ? s.b != Operand::b1 : is_byte(s.a) ? !is_byte(s.b) : !is_nibble(s.b))
    return "A and B must have elements of one width";
  if (s.c != Result::s32 || s.d != Result::s32) return "the results of integers are .s32";
  if (bits && s.saturate) return ".satfinite is for integers of 8 and 4 bits";
  const int smallest = bits ? 128 : is_byte(s.a) ? 16 : 32;
  if (s.k == smallest) return {};
  if (s.m == 16 && s.k == 2 * smallest) return {};
  return bits           ? "bits are m8n8k128, m16n8k128 or m16n8k256"
         : is_byte(s.a) ? "8-bit integers are m8n8k16, m16n8k16 or m16n8k32"
                        : "4-bit integers are m8n8k32, m16n8k32 or m16n8k64";
}

std::string_view double_fault(const MmaShape& s) {
  if (s.b != Operand::f64 || s.c != Result::f64 || s.d != Result::f64)
    return "f64 goes with f64 alone";
  if (s.k == 4 || (s.m == 16 && (s.k == 8 || s.k == 16))) return {};
  return "f64 is m8n8k4, m16n8k4, m16n8k8 or m16n8k16";
}

/// Why PTX has no such instruction; empty if it has.
std::string_view fault_of(const MmaShape& s, bool block_scale) {
  const bool mx = s.kind >= Kind::mxf8f6f4;
  const bool small = is_integer(s.a) || s.a == Operand::f64;  // have shapes of 8 rows
  if (!(s.m == 16 || (s.m == 8 && small)) || s.n != 8) return "no such shape of these elements";
  if (block_scale != mx) {
    return mx ? "this kind needs .block_scale" : ".block_scale needs an mx kind";
  }
  if (mx) {
    if (s.c != Result::f32 || s.d != Result::f32) return "block-scaled results are .f32";
    if (s.scale == ScaleType::none) return "a scale type (.ue8m0 or .ue4m3) is missing";
    if (s.kind == Kind::mxf8f6f4) {
      if (s.k != 32) return "kind::mxf8f6f4 is m16n8k32";
      if (!is_small_float(s.a) || !is_small_float(s.b)) return "elements must be 8, 6 or 4 bits";
      if (s.scale_vector != 1 || s.scale != ScaleType::ue8m0)
        return "kind::mxf8f6f4 takes .scale_vec::1X and .ue8m0";
      return {};
    }
    if (s.k != 64) return "FP4 kinds are m16n8k64";
    if (s.a != Operand::e2m1 || s.b != Operand::e2m1) return "elements must be .e2m1";
    if (s.scale_vector == 0) return "a .scale_vec is missing";
    const bool mx4 = s.scale_vector == 2 && s.scale == ScaleType::ue8m0;
    const bool nv4 = s.scale_vector == 4 && s.scale == ScaleType::ue4m3;
    if (s.kind == Kind::mxf4 ? mx4 : mx4 || nv4) return {};
    return s.kind == Kind::mxf4
               ? "kind::mxf4 takes .scale_vec::2X and .ue8m0"
               : "kind::mxf4nvf4 takes .scale_vec::2X with .ue8m0 or 4X with .ue4m3";
  }
  if (s.scale != ScaleType::none || s.scale_vector != 0) return "a scale without .block_scale";
  if (s.saturate && !is_integer(s.a)) return ".satfinite is for integers";
  if (s.rounding != Rounding::nearest && s.a != Operand::f64) return "a rounding is for .f64";
  if (s.kind == Kind::f8f6f4) {
    if (s.k != 32) return "kind::f8f6f4 is m16n8k32";
    if (!is_small_float(s.a) || !is_small_float(s.b)) return "elements must be 8, 6 or 4 bits";
  } else if (is_integer(s.a)) {
    return integer_fault(s);
  } else if (s.a == Operand::f64) {
    return double_fault(s);
  } else if (is_fp8(s.a)) {
    if (!is_fp8(s.b)) return "e4m3 and e5m2 go with each other; other types need a kind";
    if (s.k != 16 && s.k != 32) return "FP8 is m16n8k16 or m16n8k32";
  } else {
    if (s.a != s.b) return "A and B must have one type";
    if (is_small_float(s.a)) return "elements of 6 or 4 bits need a kind";
    const int largest = s.a == Operand::tf32 ? 8 : 16;
    if (s.k != largest && s.k != largest / 2) return "no such K for these elements";
    if (s.a != Operand::f16 && (s.c != Result::f32 || s.d != Result::f32))
      return "the results of bf16 and tf32 are .f32";
  }
  if (s.c == Result::s32 || s.c == Result::f64 || s.c != s.d)
    return "C and D must both be .f32 or both .f16";
  return {};
}

}  // namespace

std::string_view name_of(Operand type) { return operand_names[static_cast<std::size_t>(type)]; }
std::string_view name_of(Result type) { return result_names[static_cast<std::size_t>(type)]; }
std::string_view name_of(ScaleType type) { return scale_names[static_cast<std::size_t>(type)]; }
std::string_view name_of(Kind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

MmaShape mma_shape(std::span<const std::string_view> modifiers) {
  MmaShape shape;
  bool block_scale = false, sized = false, counts = false, counted = false;
  std::vector<std::string_view> types;  // D, A, B, C, in this order
  for (const std::string_view word : modifiers) {
    if (word == "sync" || word == "aligned" || word == "row" || word == "col") continue;
    if (word == "block_scale") {
      block_scale = true;
    } else if (word == "satfinite") {
      shape.saturate = true;
    } else if (word.starts_with("kind::")) {
      const auto kind = find<Kind>(kind_names, word.substr(6));
      if (!kind || *kind == Kind::plain) refuse(modifiers, "unknown kind");
      shape.kind = *kind;
    } else if (word.starts_with("scale_vec::")) {
      const std::string_view size = word.substr(11);
      shape.scale_vector = size == "1X" ? 1 : size == "2X" ? 2 : size == "4X" ? 4 : -1;
    } else if (word == "xor" || word == "and") {
      shape.ands = word == "and";
      counts = true;
    } else if (word == "popc") {
      counted = true;
    } else if (const auto rounding = find<Rounding>(rounding_names, word)) {
      shape.rounding = *rounding;
    } else if ((word.starts_with("m16n8k") || word.starts_with("m8n8k")) && word.size() <= 9) {
      shape.m = word[1] == '8' ? 8 : 16;
      shape.k = 0;
      for (const char digit : word.substr(shape.m == 8 ? 5 : 6)) {
        if (digit < '0' || digit > '9') refuse(modifiers, "unknown shape");
        shape.k = shape.k * 10 + (digit - '0');
      }
      sized = true;
    } else if (word == "ue8m0" || word == "ue4m3") {
      shape.scale = word == "ue8m0" ? ScaleType::ue8m0 : ScaleType::ue4m3;
    } else if (find<Operand>(operand_names, word) || find<Result>(result_names, word)) {
      types.push_back(word);
    } else {
      refuse(modifiers, fmt::format("unknown modifier .{}", word));
    }
  }
  if (!sized) refuse(modifiers, "no shape of the families m16n8k and m8n8k");
  if (types.size() != 4) refuse(modifiers, "four types (D, A, B, C) are needed");
  const auto d = find<Result>(result_names, types[0]), c = find<Result>(result_names, types[3]);
  const auto a = find<Operand>(operand_names, types[1]), b = find<Operand>(operand_names, types[2]);
  if (!a || !b || !c || !d) refuse(modifiers, "no such combination of types");
  shape.a = *a, shape.b = *b, shape.c = *c, shape.d = *d;
  if ((shape.a == Operand::b1) != (counts && counted))
    refuse(modifiers, "b1 has .xor.popc or .and.popc");
  if (block_scale && shape.scale_vector == 0) {  // the defaults; kind::mxf4nvf4 has none
    if (shape.kind == Kind::mxf8f6f4) shape.scale_vector = 1;
    if (shape.kind == Kind::mxf4) shape.scale_vector = 2;
  }
  if (const std::string_view fault = fault_of(shape, block_scale); !fault.empty())
    refuse(modifiers, fault);
  return shape;
}

std::string spelling(const MmaShape& s) {
  std::string text = fmt::format("mma.sync.aligned.m{}n{}k{}.row.col", s.m, s.n, s.k);
  if (s.kind != Kind::plain) text += fmt::format(".kind::{}", name_of(s.kind));
  if (s.scale_vector > 0) text += fmt::format(".block_scale.scale_vec::{}X", s.scale_vector);
  if (s.saturate) text += ".satfinite";
  if (s.rounding != Rounding::nearest)
    text += fmt::format(".{}", rounding_names[static_cast<std::size_t>(s.rounding)]);
  text += fmt::format(".{}.{}.{}.{}", name_of(s.d), name_of(s.a), name_of(s.b), name_of(s.c));
  if (s.scale != ScaleType::none) text += fmt::format(".{}", name_of(s.scale));
  if (s.a == Operand::b1) text += s.ands ? ".and.popc" : ".xor.popc";
  return text;
}

}  // namespace microscale::emulator::tensor
