// Arithmetic of f32, f64, f16, bf16 and their pairs, and the approximate functions.
#include <string>

#include "emulator/machine/binder.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator {

using ptx::Type;

namespace {

constexpr std::string_view one_source[] = {"abs", "neg", "rcp", "sqrt", "rsqrt",
                                           "ex2", "lg2", "sin", "cos",  "tanh"};

bool has_one_source(std::string_view opcode) {
  for (const std::string_view each : one_source)
    if (each == opcode) return true;
  return false;
}

bool is_half(Type type) { return is_pair(type) || type == Type::f16 || type == Type::bf16; }

void extreme(Binder& b, Type type) {
  std::string key(b.in.opcode);
  if (b.count() > 3) key += "3";
  key += ".";
  key += ptx::name_of(type);
  if (b.take("ftz")) key += ".ftz";
  if (b.take("NaN")) key += ".NaN";
  if (b.take("xorsign")) {
    if (!b.take("abs")) b.refuse("needs .abs behind .xorsign");
    key += ".xorsign";
  }
  b.op.d = b.destination(0, type);
  b.op.a = b.source(1, type);
  b.op.b = b.source(2, type);
  if (b.count() > 3) {
    b.op.c = b.source(3, type);
  }
  b.use(key);
}

// add, sub and fma in FP32 whose first operands are of 16 bits: add.f32.bf16 d, a, c.
void mixed(Binder& b, Type narrow) {
  const std::string_view rounding = b.take_one_of({"rn", "rz", "rm", "rp"});
  const bool saturates = b.take("sat"), fused = b.in.opcode == "fma";
  if (fused && rounding.empty()) return b.refuse("needs .rn, .rz, .rm or .rp");
  std::string key = "mixed." + std::string(b.in.opcode) + "." + std::string(ptx::name_of(narrow));
  if (saturates) key += ".sat";
  if (!rounding.empty() && rounding != "rn") {
    key = "directed." + key;
    b.op.mode = rounding == "rz" ? 1 : rounding == "rm" ? 2 : 3;
  }
  b.op.d = b.destination(0, Type::f32);
  b.op.a = b.source(1, narrow);
  b.op.b = b.source(2, fused ? narrow : Type::f32);
  if (fused) b.op.c = b.source(3, Type::f32);
  b.use(key);
}

}  // namespace

bool decode_float(Binder& b) {
  const std::string_view opcode = b.in.opcode;
  const bool known = opcode == "add" || opcode == "sub" || opcode == "mul" || opcode == "fma" ||
                     opcode == "mad" || opcode == "div" || opcode == "min" || opcode == "max" ||
                     opcode == "copysign" || has_one_source(opcode);
  if (!known) return false;
  Type type = Type::f32;
  const std::string_view approx = b.take_one_of({"approx", "full"});
  const bool pair = b.take("f32x2");  // in a 64-bit register, for which PTX has no type
  if (!pair && (!b.take_type(type) || !is_float(type)))
    return b.refuse("has no type that this machine knows"), true;
  if (Type narrow = Type::f16; type == Type::f32 && !pair && b.take_type(narrow)) {
    if (narrow != Type::f16 && narrow != Type::bf16)
      return b.refuse("takes operands of f16 or bf16 beside f32"), true;
    return mixed(b, narrow), true;
  }
  const std::string name = pair ? "f32x2" : std::string(ptx::name_of(type));
  if (pair) type = Type::b64;
  if (opcode == "min" || opcode == "max") return extreme(b, type), true;
  std::string key = opcode == "mad" ? "fma" : std::string(opcode);
  const std::string_view rounding = b.take_one_of({"rn", "rz", "rm", "rp"});
  if (!approx.empty() || opcode == "rsqrt" || opcode == "tanh" || opcode == "ex2" ||
      opcode == "lg2" || opcode == "sin" || opcode == "cos") {
    key = std::string(approx.empty() ? "approx" : approx).append(".").append(key);
  } else if (!rounding.empty() && rounding != "rn") {
    if (is_half(type)) return b.refuse("rounds values of 16 bits otherwise than to nearest"), true;
    key = std::string("directed.").append(key);
    b.op.mode = rounding == "rz" ? 1 : rounding == "rm" ? 2 : 3;
  } else if (rounding.empty() && (opcode == "fma" || opcode == "mad" || opcode == "div" ||
                                  opcode == "rcp" || opcode == "sqrt")) {
    return b.refuse("needs .rn, .rz, .rm, .rp or .approx"), true;
  }
  key += "." + name;
  if (b.take("ftz")) {
    if (!(is_half(type) && (opcode == "abs" || opcode == "neg"))) key += ".ftz";
  }
  if (b.take("sat")) key += ".sat";
  if (b.take("relu")) key += ".relu";
  b.op.d = b.destination(0, type);
  b.op.a = b.source(1, type);
  if (!has_one_source(opcode)) b.op.b = b.source(2, type);
  if (opcode == "fma" || opcode == "mad") b.op.c = b.source(3, type);
  b.use(key);
  return true;
}

}  // namespace microscale::emulator
