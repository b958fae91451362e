// The spellings that opcode_cases.hpp makes micro-kernels of, by family; sm_90a.
#pragma once

#include "support/opcode_cases.hpp"

namespace microscale::opcode_cases {

struct Family {
  std::string name;
  std::vector<Case> cases;
};

struct IntegerType {
  const char* name;
  Kind kind, nonzero;
  bool is_signed;
};
inline constexpr IntegerType integer_types[] = {
    {"u16", Kind::i16, Kind::nonzero16, false}, {"s16", Kind::i16, Kind::nonzero16, true},
    {"u32", Kind::i32, Kind::nonzero32, false}, {"s32", Kind::i32, Kind::nonzero32, true},
    {"u64", Kind::i64, Kind::nonzero64, false}, {"s64", Kind::i64, Kind::nonzero64, true}};

inline Case unary(const std::string& name, Kind d, Kind a) {
  return {name, name + " $d, $a;", d, a};
}
inline Case binary(const std::string& name, Kind d, Kind a, Kind b) {
  return {name, name + " $d, $a, $b;", d, a, b};
}
inline Case ternary(const std::string& name, Kind d, Kind a, Kind b, Kind c) {
  return {name, name + " $d, $a, $b, $c;", d, a, b, c};
}

inline Family integers() {
  Family f{"integer arithmetic", {}};
  auto& all = f.cases;
  for (const auto& [name, kind, nonzero, is_signed] : integer_types) {
    const std::string t = name;
    for (const char* op : {"add.", "sub.", "mul.lo.", "mul.hi.", "min.", "max."})
      all.push_back(binary(op + t, kind, kind, kind));
    for (const char* op : {"div.", "rem."}) all.push_back(binary(op + t, kind, kind, nonzero));
    for (const char* op : {"mad.lo.", "mad.hi."})
      all.push_back(ternary(op + t, kind, kind, kind, kind));
    if (bits_of(kind) < 64) {
      const Kind wide = bits_of(kind) == 16 ? Kind::i32 : Kind::i64;
      all.push_back(binary("mul.wide." + t, wide, kind, kind));
      all.push_back(ternary("mad.wide." + t, wide, kind, kind, wide));
    }
    all.push_back(ternary("sad." + t, kind, kind, kind, kind));
    if (is_signed) {
      all.push_back(unary("abs." + t, kind, kind));
      all.push_back(unary("neg." + t, kind, kind));
    }
  }
  for (const char* op :
       {"add.u16x2", "add.s16x2", "min.u16x2", "min.s16x2", "max.u16x2", "max.s16x2"})
    all.push_back(binary(op, Kind::i32, Kind::i32, Kind::i32));
  all.push_back(binary("add.sat.s32", Kind::i32, Kind::i32, Kind::i32));
  all.push_back(binary("sub.sat.s32", Kind::i32, Kind::i32, Kind::i32));
  for (const char* t : {"u32.u32", "s32.s32", "u32.s32", "s32.u32"})
    all.push_back(ternary(std::string("dp4a.") + t, Kind::i32, Kind::i32, Kind::i32, Kind::i32));
  return f;
}

inline Family bits() {
  Family f{"bits", {}};
  auto& all = f.cases;
  for (const auto& [width, kind] :
       {std::pair{"b16", Kind::i16}, {"b32", Kind::i32}, {"b64", Kind::i64}}) {
    const std::string t = width;
    for (const char* op : {"and.", "or.", "xor."}) all.push_back(binary(op + t, kind, kind, kind));
    all.push_back(unary("not." + t, kind, kind));
    all.push_back(unary("cnot." + t, kind, kind));
    all.push_back(binary("shl." + t, kind, kind, Kind::shift));
    if (kind == Kind::i16) continue;
    for (const char* op : {"brev.", "popc.", "clz."})
      all.push_back(unary(op + t, op[0] == 'b' ? kind : Kind::i32, kind));
    all.push_back({"bfi." + t, "bfi." + t + " $d, $a, $b, $c, 11;", kind, kind, kind, Kind::shift});
  }
  for (const auto& [name, kind, nonzero, is_signed] : integer_types) {
    const std::string t = name;
    all.push_back(binary("shr." + t, kind, kind, Kind::shift));
    if (bits_of(kind) == 16) continue;
    all.push_back(ternary("bfe." + t, kind, kind, Kind::shift, Kind::shift));
    all.push_back(unary("bfind." + t, Kind::i32, kind));
    all.push_back(unary("bfind.shiftamt." + t, Kind::i32, kind));
  }
  for (const char* op : {"shf.l.clamp.b32", "shf.r.clamp.b32", "shf.l.wrap.b32", "shf.r.wrap.b32"})
    all.push_back(ternary(op, Kind::i32, Kind::i32, Kind::i32, Kind::shift));
  for (const char* mode : {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"})
    all.push_back({std::string("prmt.b32") + mode,
                   std::string("prmt.b32") + mode + " $d, $a, $b, $c;", Kind::i32, Kind::i32,
                   Kind::i32, Kind::i32});
  for (int table : {0x80, 0xfe, 0x96, 0xca, 0x1d})
    all.push_back({fmt::format("lop3.b32 {:#x}", table),
                   fmt::format("lop3.b32 $d, $a, $b, $c, {:#x};", table), Kind::i32, Kind::i32,
                   Kind::i32, Kind::i32});
  for (const char* op : {"bmsk.clamp.b32", "bmsk.wrap.b32"})
    all.push_back(binary(op, Kind::i32, Kind::shift, Kind::shift));
  for (const char* op : {"szext.clamp.u32", "szext.wrap.u32", "szext.clamp.s32", "szext.wrap.s32"})
    all.push_back(binary(op, Kind::i32, Kind::i32, Kind::shift));
  return f;
}

/// `setp` seen through selp, plain, and joined with a predicate into a pair.
inline Case comparison(const std::string& spelling, Kind kind) {
  return {"setp." + spelling, "setp." + spelling + " $p, $a, $b; selp.u32 $d, 1, 0, $p;", Kind::i32,
          kind, kind};
}

inline Family comparisons() {
  Family f{"comparison", {}};
  auto& all = f.cases;
  for (const auto& [name, kind, nonzero, is_signed] : integer_types) {
    for (const char* op : {"eq.", "ne.", "lt.", "le.", "gt.", "ge."})
      all.push_back(comparison(op + std::string(name), kind));
    if (!is_signed)
      for (const char* op : {"lo.", "ls.", "hi.", "hs."})
        all.push_back(comparison(op + std::string(name), kind));
    all.push_back({fmt::format("selp.{} !p", name), fmt::format("selp.{} $d, $a, $b, !$q;", name),
                   kind, kind, kind});
    all.back().body =
        fmt::format("setp.lt.{} $q, $a, $b; selp.b{} $d, $a, $b, !$q;", name, bits_of(kind));
  }
  for (const auto& [name, kind] :
       {std::pair{"f32", Kind::f32}, {"f64", Kind::f64}, {"f16", Kind::f16}, {"bf16", Kind::bf16}})
    for (const char* op : {"eq.", "ne.", "lt.", "le.", "gt.", "ge.", "equ.", "neu.", "ltu.", "leu.",
                           "gtu.", "geu.", "num.", "nan."})
      all.push_back(comparison(op + std::string(name), kind));
  all.push_back(comparison("lt.ftz.f32", Kind::f32));
  all.push_back(comparison("eq.ftz.f32", Kind::f32));
  for (const char* join : {"and", "or", "xor"})
    all.push_back(
        {fmt::format("setp.lt.{}.s32 p|q", join),
         fmt::format("{{ .reg .pred t; setp.ne.s32 t, $c, 0; setp.lt.{}.s32 $p|$q, $a, $b, !t;\n"
                     "  selp.u32 $d, 1, 0, $p; @$q add.u32 $d, $d, 2; }}",
                     join),
         Kind::i32, Kind::i32, Kind::i32, Kind::i32});
  all.push_back(binary("set.lt.u32.f32", Kind::i32, Kind::f32, Kind::f32));
  all.push_back(binary("set.lt.f32.s32", Kind::f32, Kind::i32, Kind::i32));
  all.push_back(ternary("slct.u32.s32", Kind::i32, Kind::i32, Kind::i32, Kind::i32));
  all.push_back(ternary("slct.f32.f32", Kind::f32, Kind::f32, Kind::f32, Kind::f32));
  return f;
}

inline Family floats() {
  Family f{"floating point", {}};
  auto& all = f.cases;
  constexpr Kind k = Kind::f32, d = Kind::f64;
  for (const char* rounding : {".rn", ".rz", ".rm", ".rp"}) {
    const std::string r = rounding;
    for (const char* rest : {"", ".ftz", ".sat", ".ftz.sat"}) {
      for (const char* op : {"add", "sub", "mul"})
        all.push_back(binary(op + r + rest + ".f32", k, k, k));
      all.push_back(ternary("fma" + r + rest + ".f32", k, k, k, k));
    }
    for (const char* ftz : {"", ".ftz"}) {
      all.push_back(binary("div" + r + ftz + ".f32", k, k, k));
      all.push_back(unary("rcp" + r + ftz + ".f32", k, k));
      all.push_back(unary("sqrt" + r + ftz + ".f32", k, k));
    }
    for (const char* op : {"add", "sub", "mul", "div"})
      all.push_back(binary(op + r + ".f64", d, d, d));
    all.push_back(ternary("fma" + r + ".f64", d, d, d, d));
    all.push_back(unary("rcp" + r + ".f64", d, d));
    all.push_back(unary("sqrt" + r + ".f64", d, d));
  }
  for (const char* op : {"min", "max"}) {
    for (const char* rest : {"", ".ftz", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"})
      all.push_back(binary(op + std::string(rest) + ".f32", k, k, k));
    all.push_back(binary(std::string(op) + ".f64", d, d, d));
  }
  for (const char* op : {"abs", "neg"}) {
    all.push_back(unary(std::string(op) + ".f32", k, k));
    all.push_back(unary(std::string(op) + ".ftz.f32", k, k));
    all.push_back(unary(std::string(op) + ".f64", d, d));
  }
  all.push_back(binary("copysign.f32", k, k, k));
  all.push_back(binary("copysign.f64", d, d, d));
  for (const char* test : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"})
    all.push_back({fmt::format("testp.{}.f32", test),
                   fmt::format("testp.{}.f32 $p, $a; selp.u32 $d, 1, 0, $p;", test), Kind::i32, k});
  return f;
}

inline Family half_floats() {
  Family f{"half precision", {}};
  auto& all = f.cases;
  for (const auto& [name, kind] : {std::pair{"f16", Kind::f16},
                                   {"f16x2", Kind::f16x2},
                                   {"bf16", Kind::bf16},
                                   {"bf16x2", Kind::bf16x2}}) {
    const std::string t = std::string(".") + name;
    const bool brain = name[0] == 'b';
    for (const char* op : {"add.rn", "sub.rn", "mul.rn"})
      all.push_back(binary(op + t, kind, kind, kind));
    all.push_back(ternary("fma.rn" + t, kind, kind, kind, kind));
    all.push_back(ternary("fma.rn.relu" + t, kind, kind, kind, kind));
    if (!brain) {
      for (const char* op : {"add.rn.sat", "mul.rn.sat", "add.rn.ftz"})
        all.push_back(binary(op + t, kind, kind, kind));
      all.push_back(ternary("fma.rn.sat" + t, kind, kind, kind, kind));
    }
    for (const char* op : {"min", "max"})
      for (const char* rest : {"", ".NaN", ".xorsign.abs"})
        all.push_back(binary(op + std::string(rest) + t, kind, kind, kind));
    all.push_back(unary("abs" + t, kind, kind));
    all.push_back(unary("neg" + t, kind, kind));
  }
  return f;
}

inline Family conversions() {
  Family f{"conversion", {}};
  auto& all = f.cases;
  for (const auto& to : integer_types) {
    for (const auto& from : integer_types) {
      if (&to == &from) continue;
      all.push_back(unary(fmt::format("cvt.{}.{}", to.name, from.name), to.kind, from.kind));
      if (bits_of(to.kind) < bits_of(from.kind) || (from.is_signed && !to.is_signed) ||
          (bits_of(to.kind) == bits_of(from.kind) && !from.is_signed))
        all.push_back(unary(fmt::format("cvt.sat.{}.{}", to.name, from.name), to.kind, from.kind));
    }
    for (const char* rounding : {"rni", "rzi", "rmi", "rpi"})
      for (const auto& [name, kind] :
           {std::pair{"f16", Kind::f16}, {"f32", Kind::f32}, {"f64", Kind::f64}})
        all.push_back(unary(fmt::format("cvt.{}.{}.{}", rounding, to.name, name), to.kind, kind));
    for (const char* rounding : {"rn", "rz", "rm", "rp"})
      for (const auto& [name, kind] :
           {std::pair{"f16", Kind::f16}, {"f32", Kind::f32}, {"f64", Kind::f64}})
        all.push_back(unary(fmt::format("cvt.{}.{}.{}", rounding, name, to.name), kind, to.kind));
  }
  for (const char* t : {"u8.u32", "s8.s32"}) {
    all.push_back(unary(std::string("cvt.sat.") + t, Kind::i32, Kind::i32));
    all.push_back(unary(std::string("cvt.") + t, Kind::i32, Kind::i32));
  }
  all.push_back(unary("cvt.s16.s8", Kind::i16, Kind::i16));
  all.push_back(unary("cvt.u32.u8", Kind::i32, Kind::i32));
  for (const char* rounding : {"rn", "rz", "rm", "rp"}) {
    all.push_back(unary(fmt::format("cvt.{}.f16.f32", rounding), Kind::f16, Kind::f32));
    all.push_back(unary(fmt::format("cvt.{}.f32.f64", rounding), Kind::f32, Kind::f64));
    all.push_back(unary(fmt::format("cvt.{}i.f32.f32", rounding), Kind::f32, Kind::f32));
    all.push_back(unary(fmt::format("cvt.{}i.f64.f64", rounding), Kind::f64, Kind::f64));
  }
  all.push_back(unary("cvt.f32.f16", Kind::f32, Kind::f16));
  all.push_back(unary("cvt.f32.bf16", Kind::f32, Kind::bf16));
  all.push_back(unary("cvt.f64.f32", Kind::f64, Kind::f32));
  all.push_back(unary("cvt.sat.f32.f32", Kind::f32, Kind::f32));
  all.push_back(unary("cvt.rn.bf16.f32", Kind::bf16, Kind::f32));
  all.push_back(unary("cvt.rz.bf16.f32", Kind::bf16, Kind::f32));
  all.push_back(unary("cvt.rn.relu.bf16.f32", Kind::bf16, Kind::f32));
  all.push_back(unary("cvt.rna.tf32.f32", Kind::i32, Kind::f32));
  for (const char* pair : {"f16x2", "bf16x2"})
    for (const char* rounding : {"rn", "rz", "rn.relu"})
      all.push_back(
          binary(fmt::format("cvt.{}.{}.f32", rounding, pair), Kind::i32, Kind::f32, Kind::f32));
  for (const char* small : {"e4m3x2", "e5m2x2"})
    for (const char* relu : {"", ".relu"}) {
      all.push_back(binary(fmt::format("cvt.rn.satfinite{}.{}.f32", relu, small), Kind::i16,
                           Kind::f32, Kind::f32));
      all.push_back(
          unary(fmt::format("cvt.rn.satfinite{}.{}.f16x2", relu, small), Kind::i16, Kind::f16x2));
      all.push_back(
          unary(fmt::format("cvt.rn{}.f16x2.{}", relu, small), Kind::f16x2, Kind::byte_pair));
    }
  return f;
}

inline Family warps() {
  Family f{"warp", {}};
  auto& all = f.cases;
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    const char* clamp = mode[0] == 'u' ? "0" : "31";
    all.push_back(
        {fmt::format("shfl.sync.{}.b32", mode),
         fmt::format("shfl.sync.{}.b32 $d|$p, $a, $b, {}, -1; @!$p xor.b32 $d, $d, 0x5a5a5a5a;",
                     mode, clamp),
         Kind::i32, Kind::i32, Kind::lane});
    all.push_back(
        {fmt::format("shfl.sync.{}.b32 in eights", mode),
         fmt::format("shfl.sync.{}.b32 $d|$p, $a, $b, {}, -1; @!$p xor.b32 $d, $d, 0x5a5a5a5a;",
                     mode, mode[0] == 'u' ? "0x1800" : "0x181f"),
         Kind::i32, Kind::i32, Kind::lane});
  }
  for (const char* mode : {"all", "any", "uni"})
    all.push_back({fmt::format("vote.sync.{}.pred", mode),
                   fmt::format("vote.sync.{}.pred $q, $p, -1; selp.u32 $d, 1, 0, $q;", mode),
                   Kind::i32, Kind::pred});
  all.push_back(
      {"vote.sync.ballot.b32", "vote.sync.ballot.b32 $d, $p, -1;", Kind::i32, Kind::pred});
  all.push_back({"match.any.sync.b32", "match.any.sync.b32 $d, $a, -1;", Kind::i32, Kind::lane});
  all.push_back({"match.all.sync.b32", "match.all.sync.b32 $d|$p, $a, -1; @!$p xor.b32 $d, $d, 1;",
                 Kind::i32, Kind::pred});
  for (const char* op : {"add.u32", "min.u32", "max.u32", "add.s32", "min.s32", "max.s32",
                         "and.b32", "or.b32", "xor.b32"})
    all.push_back({std::string("redux.sync.") + op, fmt::format("redux.sync.{} $d, $a, -1;", op),
                   Kind::i32, Kind::i32});
  return f;
}

inline Family approximations() {
  Family f{"approximate", {}};
  for (const char* op : {"ex2.approx", "lg2.approx", "rcp.approx", "sqrt.approx", "rsqrt.approx",
                         "sin.approx", "cos.approx"})
    for (const char* ftz : {"", ".ftz"})
      f.cases.push_back(unary(fmt::format("{}{}.f32", op, ftz), Kind::f32, Kind::f32));
  f.cases.push_back(unary("tanh.approx.f32", Kind::f32, Kind::f32));
  f.cases.push_back(unary("ex2.approx.f16", Kind::f16, Kind::f16));
  f.cases.push_back(unary("tanh.approx.f16", Kind::f16, Kind::f16));
  return f;
}

inline Family dot_products() {
  Family f{"dot products", {}};
  for (const char* op : {"dp2a.lo.", "dp2a.hi."})
    for (const char* t : {"u32.u32", "s32.s32", "u32.s32", "s32.u32"})
      f.cases.push_back(ternary(std::string(op) + t, Kind::i32, Kind::i32, Kind::i32, Kind::i32));
  return f;
}

/// What conversions() leaves out: 8-bit sources, FP64 and 16-bit floats, saturation and flushing.
inline Family directed_conversions() {
  Family f{"directed conversion", {}};
  auto& all = f.cases;
  for (const char* rounding : {"rn", "rz", "rm", "rp"}) {
    const std::string r = std::string("cvt.") + rounding;
    for (const char* from : {"u8", "s8"})
      all.push_back(unary(fmt::format("{}.f16.{}", r, from), Kind::f16, Kind::i8));
    for (const auto& from : integer_types) {
      all.push_back(unary(fmt::format("{}.bf16.{}", r, from.name), Kind::bf16, from.kind));
      for (const auto& [to, kind] :
           {std::pair{"f16", Kind::f16}, {"f32", Kind::f32}, {"f64", Kind::f64}})
        all.push_back(unary(fmt::format("{}.sat.{}.{}", r, to, from.name), kind, from.kind));
    }
    for (const char* rest : {"", ".sat"})
      all.push_back(unary(fmt::format("{}{}.f16.f64", r, rest), Kind::f16, Kind::f64));
    for (const char* rest : {".ftz", ".sat", ".ftz.sat"}) {
      all.push_back(unary(fmt::format("{}{}.f16.f32", r, rest), Kind::f16, Kind::f32));
      all.push_back(unary(fmt::format("{}{}.f32.f64", r, rest), Kind::f32, Kind::f64));
    }
    all.push_back(unary(r + ".bf16.f64", Kind::bf16, Kind::f64));
    all.push_back(unary(r + ".ftz.bf16.f32", Kind::bf16, Kind::f32));
    if (rounding[1] == 'm' || rounding[1] == 'p')
      all.push_back(unary(r + ".bf16.f32", Kind::bf16, Kind::f32));
    all.push_back(unary(r + ".f16.bf16", Kind::f16, Kind::bf16));
    all.push_back(unary(r + ".bf16.f16", Kind::bf16, Kind::f16));
    all.push_back(unary(r + ".f32.bf16", Kind::f32, Kind::bf16));
    all.push_back(unary(r + ".ftz.f32.bf16", Kind::f32, Kind::bf16));
    all.push_back(unary(r + ".f64.bf16", Kind::f64, Kind::bf16));
  }
  for (const char* to : {"f16", "bf16"})
    for (const char* how : {"rz.relu", "rn.satfinite", "rz.satfinite", "rn.relu.satfinite"})
      all.push_back(unary(fmt::format("cvt.{}.{}.f32", how, to), Kind::f16, Kind::f32));
  all.push_back(unary("cvt.sat.f32.f16", Kind::f32, Kind::f16));
  return f;
}

inline std::vector<Family> families() {
  return {integers(),    bits(),  comparisons(),    floats(),       half_floats(),
          conversions(), warps(), approximations(), dot_products(), directed_conversions()};
}

}  // namespace microscale::opcode_cases
