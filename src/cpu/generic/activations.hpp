// SiLU and GELU of gates in vectors: the operations of formats/producers.hpp, lane by lane, so the
// same FP32 values. Included inside a target region
// (cpu/target_region.hpp).

inline Float negative(Float v) { return as_float(xor_(as_int(v), set32(0x80000000u))); }

/// exp_of_negative of formats/arithmetic.hpp.
inline Float exp_of_negative_lanes(Float x) {
  const Float log2_e = set_float(-1.44269502f), rounder = set_float(12582912.0f);
  const Float limited = min(x, set_float(80.0f));
  const Float shifted = fma(limited, log2_e, rounder);
  const Float f = fma(limited, log2_e, negative(sub(shifted, rounder)));
  Float p = set_float(1.32647271e-3f);
  p = fma(p, f, set_float(9.67151264e-3f));
  p = fma(p, f, set_float(5.55073374e-2f));
  p = fma(p, f, set_float(2.40222421e-1f));
  p = fma(p, f, set_float(6.93146978e-1f));
  p = fma(p, f, set_float(1.0f));
  return as_float(add32(as_int(p), shl32<23>(as_int(shifted))));
}

/// reciprocal_close of formats/arithmetic.hpp.
inline Float reciprocal_close_lanes(Float x) {
  const Float minus_x = negative(x);
  Float y = as_float(sub32(set32(0x7EF31000u), as_int(x)));
  y = mul(y, fma(minus_x, y, set_float(2.00127649f)));
  const Float rest = fma(minus_x, y, set_float(1.5f));
  return mul(y, fma(rest, rest, set_float(0.75f)));
}

/// silu_mul of formats/producers.hpp: lanes 2 i and 2 i + 1 share a reciprocal.
inline Float silu_mul_lanes(Float gate, Float up) {
  const Float x = max(set_float(microscale::lowest_gate), gate);  // NaN stays NaN
  const Float d = add(set_float(1.0f), exp_of_negative_lanes(x)), other = swap_neighbours(d);
  return mul(mul(x, mul(reciprocal_close_lanes(mul(d, other)), other)), up);
}

/// gelu_tanh_mul of formats/producers.hpp.
inline Float gelu_tanh_mul_lanes(Float gate, Float up) {
  const Float x = max(set_float(microscale::lowest_gelu_gate), gate);
  const Float t = mul(x, fma(mul(x, x), set_float(0.0713548163f), set_float(1.59576912f)));
  const Float d = add(set_float(1.0f), exp_of_negative_lanes(t));
  return mul(mul(x, reciprocal_close_lanes(d)), up);
}

template <Activation Kind>
inline Float activation_lanes(Float gate, Float up) {
  return Kind == Activation::silu ? silu_mul_lanes(gate, up) : gelu_tanh_mul_lanes(gate, up);
}

template <Activation Kind>
inline void activate_row(float* gate, const float* up, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    store_float(gate + i, activation_lanes<Kind>(load_float(gate + i), load_float(up + i)));
  if (i == count) return;
  alignas(64) float last_gate[lanes] = {}, last_up[lanes] = {};
  const auto bytes = static_cast<std::size_t>(count - i) * sizeof(float);
  __builtin_memcpy(last_gate, gate + i, bytes);
  __builtin_memcpy(last_up, up + i, bytes);
  store_float(last_gate, activation_lanes<Kind>(load_float(last_gate), load_float(last_up)));
  __builtin_memcpy(gate + i, last_gate, bytes);
}

inline void activate_gates(Activation kind, float* gate, const float* up, std::int64_t count) {
  kind == Activation::silu ? activate_row<Activation::silu>(gate, up, count)
                           : activate_row<Activation::gelu_tanh>(gate, up, count);
}
