// The online softmax of 32 keys. Included inside a target region (cpu/target_region.hpp).

inline Float minus_infinity() { return as_float(set32(0xFF800000u)); }

/// e^f - 1 for |f| <= ln(2) / 2, relative error below 2^-22.
inline Float exp_minus_one(Float f) {
  Float p = set_float(1.0f / 5040.0f);
  p = fma(p, f, set_float(1.0f / 720.0f));
  p = fma(p, f, set_float(1.0f / 120.0f));
  p = fma(p, f, set_float(1.0f / 24.0f));
  p = fma(p, f, set_float(1.0f / 6.0f));
  p = fma(p, f, set_float(0.5f));
  return fma(mul(f, f), p, f);
}

/// x = whole * ln 2 + f: f, and the bits of `whole` in the low end of `shifted`.
struct Reduced {
  Float f;
  Int shifted;
};
inline Reduced reduce(Float x) {
  const Float rounder = set_float(12582912.0f);  // 1.5 * 2^23: rounds to an integer
  const Float shifted = fma(x, set_float(1.44269502f), rounder);
  const Float whole = sub(shifted, rounder);
  const Float upper = fma(whole, set_float(-0x1.62e4p-1f), x);  // 17 bits of ln 2: exact
  return {fma(whole, set_float(-1.42860682e-6f), upper), as_int(shifted)};
}

/// e^x for x <= 0, within 2^-22; 0 below -87. NaN stays NaN.
inline Float exp_of(Float x) {
  const Reduced r = reduce(x);
  const Float p = add(exp_minus_one(r.f), set_float(1.0f));
  const Float power = as_float(add32(as_int(p), shl32<23>(r.shifted)));
  const Float result = choose(less(x, set_float(-87.0f)), as_float(zero()), power);
  return choose(unordered(x), x, result);
}

/// tanh within 2^-21 of its value: t / (t + 2), t = e^2|x| - 1. NaN stays NaN.
inline Float tanh_of(Float x) {
  const Int sign = and_(as_int(x), set32(0x80000000u));
  const Float magnitude = as_float(and_(as_int(x), set32(0x7FFFFFFFu)));
  const Reduced r = reduce(min(add(magnitude, magnitude), set_float(40.0f)));
  // (whole << 23) of a number below 2^6: the bits above the sum's last place are gone by the shift.
  const Float power = as_float(add32(shl32<23>(r.shifted), set32(0x3F800000u)));
  const Float t = add(mul(power, exp_minus_one(r.f)), sub(power, set_float(1.0f)));
  const Float result = div(t, add(t, set_float(2.0f)));
  return choose(unordered(x), x, as_float(or_(as_int(result), sign)));
}

inline float first_lane(Float v) {
  alignas(64) float values[lanes];
  store_float(values, v);
  return values[0];
}

/// A row's state: the largest score so far, and the sum of e^(score - largest).
struct AttentionState {
  float largest;
  double sum;
};

/// What a block does to a row's scores.
struct AttentionBlock {
  float k_factor[32], v_factor[32];  // of each key
  float softcap = 0;
};

/// Products of q and 32 keys, of which [begin, end) are seen, become probabilities times v_factor;
/// returns what the row's output so far is multiplied by.
[[gnu::always_inline]] inline float softmax_block(const AttentionBlock& block, float shift,
                                                  int begin, int end, float* scores,
                                                  AttentionState& state) {
  constexpr int vectors = 32 / lanes;
  Float s[vectors], most = minus_infinity();
  MICROSCALE_UNROLL
  for (int i = 0; i < vectors; ++i) {
    s[i] = fma(load_float(scores + i * lanes), load_float(block.k_factor + i * lanes),
               set_float(shift));
    if (block.softcap > 0)
      s[i] = mul(set_float(block.softcap), tanh_of(div(s[i], set_float(block.softcap))));
  }
  if (begin > 0 || end < 32) {
    for (int i = 0; i < vectors; ++i) store_float(scores + i * lanes, s[i]);
    for (int j = 0; j < 32; ++j)
      if (j < begin || j >= end) scores[j] = -__builtin_inff();
    for (int i = 0; i < vectors; ++i) s[i] = load_float(scores + i * lanes);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < vectors; ++i) most = max(s[i], most);  // NaN: what was
  const float most_of_block = max_lanes(most),
              largest = most_of_block > state.largest ? most_of_block : state.largest;
  const Float origin = set_float(largest == -__builtin_inff() ? 0.0f : largest);
  Float sum = as_float(zero());
  MICROSCALE_UNROLL
  for (int i = 0; i < vectors; ++i) {
    const Float p = exp_of(sub(s[i], origin));
    sum = add(sum, p);
    store_float(scores + i * lanes, mul(p, load_float(block.v_factor + i * lanes)));
  }
  const bool stays = largest == state.largest && largest != -__builtin_inff();
  const float alpha = stays ? 1.0f : first_lane(exp_of(sub(set_float(state.largest), origin)));
  state.sum = state.sum * static_cast<double>(alpha) + static_cast<double>(sum_lanes(sum));
  state.largest = largest;
  return alpha;
}
