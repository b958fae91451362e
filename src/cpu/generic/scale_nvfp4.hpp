// The E4M3 scale of `lanes` NVFP4 blocks at once, one block per lane. The tile holds magnitudes
// transposed, so the sums of block_error run in every lane in their own order. Included inside a
// target region.

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
  return choose(equal32(as_int(scale), zero()), set_float(0.0f),
                min(inverse, set_float(0x1.fffffep127f)));
}

template <bool Weighted, bool Absolute>
inline Int four_over_six(const float* tile, const float* weights, Int nearest, Float target,
                         const Nvfp4Call& call) {
  const Int four = encode_ue4m3(mul(target, set_float(1.5f)));
  const Float scales[2] = {decode_ue4m3(four), decode_ue4m3(nearest)};
  const Float multipliers[2] = {nvfp4_multipliers(scales[0], call),
                                nvfp4_multipliers(scales[1], call)};
  Float errors[2];
  error_sums<Fp4, 16, 2, Weighted, Absolute>(tile, weights, multipliers, errors);
  for (int n = 0; n < 2; ++n)
    errors[n] = mul(errors[n], Absolute ? scales[n] : mul(scales[n], scales[n]));
  return choose32(less(errors[0], errors[1]), four, nearest);
}

/// Candidates whose multipliers are found ahead of the sums, so that no sum waits for a division.
inline constexpr int window = nvfp4_window_below + 1 + nvfp4_window_above;
static_assert(window % 2 == 0, "candidates are tried in pairs");

/// The first code of least error in [first, last], which differ per lane, of `count` codes from
/// `start` on.
template <bool Weighted>
inline Int best_scale(const float* tile, const float* weights, Int start, Int first, Int last,
                      int count, const Nvfp4Call& call) {
  Int best = first;
  Float least = set_float(0.0f);
  for (int done = 0; done < count; done += window) {
    Int codes[window];
    Float multipliers[window], squares[window];
    for (int i = 0; i < window; ++i) {
      codes[i] = add32(start, set32(static_cast<std::uint32_t>(done + i)));
      // Lanes where a code is out of range compute with a valid one and ignore the result.
      const Float scale = decode_ue4m3(min32_signed(max32_signed(codes[i], first), last));
      multipliers[i] = nvfp4_multipliers(scale, call);
      squares[i] = mul(scale, scale);
    }
    for (int i = 0; i < window; i += 2) {
      Float errors[2];
      error_sums<Fp4, 16, 2, Weighted>(tile, weights, multipliers + i, errors);
      MICROSCALE_UNROLL
      for (int n = 0; n < 2; ++n) {
        const Int code = codes[i + n];
        const Float error = mul(errors[n], squares[i + n]);
        const Mask in_range = equal32(code, min32_signed(max32_signed(code, first), last));
        const Mask take = both(in_range, either(equal32(code, first), less(error, least)));
        best = choose32(take, code, best);
        least = choose(take, error, least);
      }
    }
  }
  return best;
}

/// The codes that a rule which looks at all elements of the blocks chooses. `target`: amax / 6 /
/// global scale, `nearest`: its code.
template <DType Type, bool Weighted>
inline Int search_nvfp4(const void* input, const float* weight, Float target, Int nearest,
                        const Nvfp4Call& call) {
  alignas(64) float tile[16 * lanes], weights[Weighted ? 16 * lanes : 1];
  load_tile<Type, 16>(input, tile);
  if constexpr (Weighted) load_weights<16>(weight, weights);
  const Int one = set32(1), top = set32(nvfp4_max_scale);
  switch (call.rule) {
    case ScaleRule::four_over_six:
      return four_over_six<Weighted, false>(tile, weights, nearest, target, call);
    case ScaleRule::four_over_six_mae:
      return four_over_six<Weighted, true>(tile, weights, nearest, target, call);
    case ScaleRule::full:
      return best_scale<Weighted>(tile, weights, one, one, top, nvfp4_max_scale, call);
    default:
      break;
  }
  const Int start = sub32(nearest, set32(nvfp4_window_below));
  const Int last = min32_signed(add32(nearest, set32(nvfp4_window_above)), top);
  return best_scale<Weighted>(tile, weights, start, max32_signed(start, one), last, window, call);
}
