// The E4M3 scale of `lanes` NVFP4 blocks at once, one block per lane. The tile holds magnitudes transposed, so
// the sums of block_error run in every lane in their own order. Included inside a target region.

/// Per call.
struct Nvfp4Call {
  float global_scale;
  float scale_factor;  // nvfp4_scale_factor(global_scale)
  ScaleRule rule;
};

/// E4M3 codes without sign, nearest even, saturated. y >= 0.
inline Int encode_ue4m3(Float y) {
  y = min(y, set_float(448.0f));
  const Float unit = max(and_float(y, as_float(set32(0x7F800000u))), set_float(0x1p-6f));
  const Int bits = as_int(fma(unit, set_float(0x1p20f), y));  // exponent + 147, code's last bits
  return add32(sub32(shr32<20>(bits), set32(8 * 141)), and_(bits, set32(31)));
}

inline Float decode_ue4m3(Int code) {
  return mul(as_float(shl32<20>(code)), set_float(0x1p120f));  // exact for subnormals too
}

/// What elements are multiplied by; 0 for code 0.
inline Float nvfp4_multipliers(Float scale, const Nvfp4Call& call) {
  const Float inverse = div(set_float(1.0f), mul(scale, set_float(call.global_scale)));
  return choose(equal32(as_int(scale), zero()), set_float(0.0f), min(inverse, set_float(0x1.fffffep127f)));
}

template <bool Weighted, bool Absolute>
inline Float scale_error(const float* tile, const float* weights, Int code, const Nvfp4Call& call) {
  const Float scale = decode_ue4m3(code);
  const Float sum =
      error_sum<Fp4, 16, Weighted, Absolute>(tile, weights, nvfp4_multipliers(scale, call));
  return mul(sum, Absolute ? scale : mul(scale, scale));
}

template <bool Weighted, bool Absolute>
inline Int four_over_six(const float* tile, const float* weights, Int nearest, Float target,
                         const Nvfp4Call& call) {
  const Int four = encode_ue4m3(mul(target, set_float(1.5f)));
  return choose32(less(scale_error<Weighted, Absolute>(tile, weights, four, call),
                       scale_error<Weighted, Absolute>(tile, weights, nearest, call)),
                  four, nearest);
}

/// The first code of least error in [first, last], which differ per lane; `count` covers the widest.
template <bool Weighted>
inline Int best_scale(const float* tile, const float* weights, Int start, Int first, Int last, int count,
                      const Nvfp4Call& call) {
  Int best = first;
  Float least = set_float(0.0f);
  for (int i = 0; i < count; ++i) {
    const Int code = add32(start, set32(static_cast<std::uint32_t>(i)));
    // Lanes where the code is out of range compute with a valid one and ignore the result.
    const Int valid = min32_signed(max32_signed(code, first), last);
    const Float error = scale_error<Weighted, false>(tile, weights, valid, call);
    const Mask take = both(equal32(code, valid), either(equal32(code, first), less(error, least)));
    best = choose32(take, code, best);
    least = choose(take, error, least);
  }
  return best;
}

/// The chosen codes for magnitudes `amax`, 0 where that is 0. `input`: the blocks, for the rules that search.
template <DType Type, bool Weighted>
inline Int nvfp4_scales(const void* input, const float* weight, Float amax, const Nvfp4Call& call) {
  const Float target = mul(amax, set_float(call.scale_factor));
  const Int nearest = encode_ue4m3(target);
  Int code = nearest;
  if (call.rule != ScaleRule::nearest) {
    alignas(64) float tile[16 * lanes], weights[Weighted ? 16 * lanes : 1];
    load_tile<Type, 16>(input, tile);
    if constexpr (Weighted) load_weights<16>(weight, weights);
    const Int one = set32(1), top = set32(126);
    switch (call.rule) {
      case ScaleRule::four_over_six:
        code = four_over_six<Weighted, false>(tile, weights, nearest, target, call);
        break;
      case ScaleRule::four_over_six_mae:
        code = four_over_six<Weighted, true>(tile, weights, nearest, target, call);
        break;
      case ScaleRule::full: code = best_scale<Weighted>(tile, weights, one, one, top, 126, call); break;
      default: {
        const Int start = sub32(nearest, set32(3));
        code = best_scale<Weighted>(tile, weights, start, max32_signed(start, one),
                                    min32_signed(add32(nearest, set32(6)), top), 10, call);
      }
    }
  }
  return choose32(equal32(as_int(amax), zero()), zero(), code);
}
