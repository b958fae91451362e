// Kernels of the quantizers that take a Hessian: a row in each lane, so every sum runs in its own
// order, that of reference/hessian_kernels.cpp. Included inside a target region
// (cpu/target_region.hpp), after scale_nvfp4.hpp and, in front of them,
//   Double, double_lanes, load_double, store_double, set_double
//   subtract_product(a, b, c)   c - a * b with one rounding
//   factor_rows, product_columns, candidates_at_once    what registers hold

template <int Rows>
inline void eliminate_from(double* const* c, const double* const* v, const double* u,
                           std::int64_t depth, int width) {
  for (int j = 0; j < width; j += 2 * double_lanes) {
    Double sum[Rows][2];
    MICROSCALE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      sum[r][0] = load_double(c[r] + j);
      sum[r][1] = load_double(c[r] + j + double_lanes);
    }
    for (std::int64_t k = depth - 1; k >= 0; --k) {
      const double* at = u + k * factor_width + j;
      const Double first = load_double(at), second = load_double(at + double_lanes);
      MICROSCALE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const Double value = set_double(v[r][k]);
        sum[r][0] = subtract_product(value, first, sum[r][0]);
        sum[r][1] = subtract_product(value, second, sum[r][1]);
      }
    }
    MICROSCALE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      store_double(c[r] + j, sum[r][0]);
      store_double(c[r] + j + double_lanes, sum[r][1]);
    }
  }
}

inline void eliminate(double* const* c, const double* const* v, std::int64_t count, const double* u,
                      std::int64_t depth, int width) {
  std::int64_t r = 0;
  for (; r + factor_rows <= count; r += factor_rows)
    eliminate_from<factor_rows>(c + r, v + r, u, depth, width);
  for (; r < count; ++r) eliminate_from<1>(c + r, v + r, u, depth, width);
}

inline void solve(double* const* c, std::int64_t count, const double* u, int width) {
  for (std::int64_t r = 0; r < count; ++r)
    for (int k = width - 1; k > 0; --k) {
      const Double computed = set_double(c[r][k]);
      for (int j = 0; j < width; j += double_lanes)
        store_double(c[r] + j, subtract_product(computed, load_double(u + k * factor_width + j),
                                                load_double(c[r] + j)));
    }
}

inline void add_products(const float* values, std::int64_t depth, const float* matrix,
                         std::int64_t stride, float* sums) {
  for (int row = 0; row < hessian_rows; row += 2 * lanes)
    for (int c = 0; c < 16; c += product_columns) {
      float* at = sums + c * hessian_rows + row;
      Float sum[product_columns][2];
      MICROSCALE_UNROLL
      for (int j = 0; j < product_columns; ++j) {
        sum[j][0] = load_float(at + j * hessian_rows);
        sum[j][1] = load_float(at + j * hessian_rows + lanes);
      }
      const float *value = values + row, *factors = matrix + c;
      for (std::int64_t i = 0; i < depth; ++i, value += hessian_rows, factors += stride) {
        const Float first = load_float(value), second = load_float(value + lanes);
        MICROSCALE_UNROLL
        for (int j = 0; j < product_columns; ++j) {
          const Float factor = set_float(factors[j]);
          sum[j][0] = fma(first, factor, sum[j][0]);
          sum[j][1] = fma(second, factor, sum[j][1]);
        }
      }
      MICROSCALE_UNROLL
      for (int j = 0; j < product_columns; ++j) {
        store_float(at + j * hessian_rows, sum[j][0]);
        store_float(at + j * hessian_rows + lanes, sum[j][1]);
      }
    }
}

inline Float signed_as(Float magnitude, Float v) {
  return as_float(or_(as_int(magnitude), and_(as_int(v), set32(0x80000000u))));
}
inline Float magnitude_of(Float v) { return and_float(v, as_float(set32(0x7FFFFFFFu))); }
inline Float opposite(Float v) { return as_float(xor_(as_int(v), set32(0x80000000u))); }

/// Codes of magnitudes 0, 0.5, 1, ... 6: twice the number below 1, exponent and mantissa above.
inline Int fp4_codes_of(Float magnitude) {
  return choose32(less(magnitude, set_float(1.0f)), to_int(add(magnitude, magnitude)),
                  sub32(shr32<22>(as_int(magnitude)), set32(252)));
}

/// E4M3 scales under a global one.
struct Nvfp4Scales {
  static constexpr int block = 16;
  Nvfp4Call call;
  explicit Nvfp4Scales(const HessianRows& rows)
      : call{rows.global_scale, cpu::nvfp4_factor(rows.global_scale), rows.rule} {}
  Float multiplier(Int scale) const { return nvfp4_multipliers(decode_ue4m3(scale), call); }
  Float step(Int scale) const { return mul(decode_ue4m3(scale), set_float(call.global_scale)); }
  Float unit(Int scale, Int) const {
    const Float value = decode_ue4m3(scale);
    return mul(value, value);
  }
  /// Returns how many candidates there are from `start` on; those beyond [first, last] do not
  /// count.
  int candidates(Float amax, Int& start, Int& first, Int& last) const {
    const Int top = set32(nvfp4_max_scale);
    if (call.rule == ScaleRule::full) {
      start = first = set32(1);
      last = top;
      return nvfp4_max_scale;
    }
    const Int nearest = encode_ue4m3(mul(amax, set_float(call.scale_factor)));
    start = sub32(nearest, set32(nvfp4_window_below));
    first = max32_signed(start, set32(1));
    last = min32_signed(add32(nearest, set32(nvfp4_window_above)), top);
    return window;
  }
};

/// E8M0 scales.
struct Mxfp4Scales {
  static constexpr int block = 32;
  explicit Mxfp4Scales(const HessianRows&) {}
  Float multiplier(Int scale) const { return as_float(shl32<23>(sub32(set32(254), scale))); }
  Float step(Int scale) const {
    return as_float(choose32(equal32(scale, zero()), set32(0x00400000u), shl32<23>(scale)));
  }
  Float unit(Int scale, Int first) const {
    const Int steps = sub32(scale, first);
    return as_float(shl32<23>(add32(set32(127), add32(steps, steps))));
  }
  int candidates(Float amax, Int& start, Int& first, Int& last) const {
    const Int floor = max32_signed(sub32(shr32<23>(as_int(amax)), set32(2)), zero());
    start = sub32(floor, set32(mxfp4_window_below));
    first = max32_signed(start, zero());
    last = add32(floor, set32(1));
    return mxfp4_window_below + 2;
  }
};

/// A block of `lanes` rows.
template <int Block>
struct BlockOfRows {
  const float *weights, *targets;  // column j at j * hessian_rows
  const float* own;                // GPTQ: rows of the factor's panel that belong to the block
  const float* pivots;             // GPTQ: its columns'
  const float* hessian;            // else
};

/// The values under N scales at once. errors[n]: weight less value, column j at j * lanes; sums: of
/// errors in steps, or unused. Codes of the last one go to `codes`, column j at j * hessian_rows.
template <int Block, bool Gptq, int N, bool Store>
inline void encode_block(const BlockOfRows<Block>& block, const Float* multipliers,
                         const Float* steps, float (*errors)[Block * lanes], Float* sums,
                         std::uint8_t* codes) {
  alignas(64) float scaled_errors[Gptq || Store ? 1 : N][Gptq || Store ? 1 : Block * lanes];
  Float partial[N][Block / 8];
  for (int j = 0; j < Block; ++j) {
    Float target[N];
    const Float start = load_float(block.targets + j * hessian_rows);
    MICROSCALE_UNROLL
    for (int n = 0; n < N; ++n) target[n] = start;
    if constexpr (Gptq) {
      for (int i = 0; i < j; ++i) {
        const Float factor = set_float(block.own[i * Block + j]);
        MICROSCALE_UNROLL
        for (int n = 0; n < N; ++n)
          target[n] = fma(load_float(errors[n] + i * lanes), factor, target[n]);
      }
    }
    const Float weight = load_float(block.weights + j * hessian_rows);
    MICROSCALE_UNROLL
    for (int n = 0; n < N; ++n) {
      const Float scaled = mul(target[n], multipliers[n]), magnitude = magnitude_of(scaled);
      const Float rounded = round_to<Fp4>(magnitude), value = signed_as(rounded, scaled);
      store_float(errors[n] + j * lanes, fma(opposite(value), steps[n], weight));
      if constexpr (Store) {
        store_low_bytes(codes + j * hessian_rows,
                        or_(fp4_codes_of(rounded), and_(shr32<28>(as_int(scaled)), set32(8))));
      } else if constexpr (Gptq) {
        const Float error = sub(magnitude, rounded);
        Float& sum = partial[n][j / 8];
        sum =
            fma(mul(set_float(block.pivots[j]), error), error, j % 8 == 0 ? set_float(0.0f) : sum);
      } else {
        store_float(scaled_errors[n] + j * lanes, sub(scaled, value));
      }
    }
  }
  if constexpr (Store) return;
  if constexpr (!Gptq) {
    for (int i = 0; i < Block; ++i) {
      Float weighted[N];
      MICROSCALE_UNROLL
      for (int n = 0; n < N; ++n) weighted[n] = set_float(0.0f);
      for (int j = 0; j < Block; ++j) {
        const Float factor = set_float(block.hessian[i * Block + j]);
        MICROSCALE_UNROLL
        for (int n = 0; n < N; ++n)
          weighted[n] = fma(factor, load_float(scaled_errors[n] + j * lanes), weighted[n]);
      }
      MICROSCALE_UNROLL
      for (int n = 0; n < N; ++n) {
        Float& sum = partial[n][i / 8];
        sum = fma(weighted[n], load_float(scaled_errors[n] + i * lanes),
                  i % 8 == 0 ? set_float(0.0f) : sum);
      }
    }
  }
  MICROSCALE_UNROLL
  for (int n = 0; n < N; ++n) {
    MICROSCALE_UNROLL
    for (int width = Block / 8; width > 1; width /= 2)
      for (int i = 0; i < width / 2; ++i)
        partial[n][i] = add(partial[n][2 * i], partial[n][2 * i + 1]);
    sums[n] = partial[n][0];
  }
}

/// The scale of a block in each lane.
template <class Scales, bool Gptq, int N>
inline Int best_of_candidates(const BlockOfRows<Scales::block>& block, const Scales& scales,
                              Float amax) {
  alignas(64) float errors[N][Scales::block * lanes];
  Int start, first, last;
  const int count = scales.candidates(amax, start, first, last);
  Int best = first;
  Float least = set_float(0.0f);
  for (int done = 0; done < count; done += N) {
    Int codes[N];
    Float multipliers[N], steps[N], sums[N];
    for (int n = 0; n < N; ++n) {
      codes[n] = add32(start, set32(static_cast<std::uint32_t>(done + n)));
      // Lanes where a code is out of range compute with a valid one and ignore the result.
      const Int valid = min32_signed(max32_signed(codes[n], first), last);
      multipliers[n] = scales.multiplier(valid);
      steps[n] = scales.step(valid);
    }
    encode_block<Scales::block, Gptq, N, false>(block, multipliers, steps, errors, sums, nullptr);
    for (int n = 0; n < N; ++n) {
      const Int valid = min32_signed(max32_signed(codes[n], first), last);
      const Float error = mul(sums[n], scales.unit(valid, first));
      const Mask take =
          both(equal32(codes[n], valid), either(equal32(codes[n], first), less(error, least)));
      best = choose32(take, codes[n], best);
      least = choose(take, error, least);
    }
  }
  return best;
}

template <class Scales, bool Gptq, int N>
void quantize_rows(const HessianRows& rows) {
  constexpr int block = Scales::block;
  const Scales scales(rows);
  alignas(64) float targets[block * hessian_rows], errors[1][block * lanes];
  for (std::int64_t b = 0; b < rows.blocks; ++b) {
    const std::int64_t begin = b * block, at = begin * hessian_rows;
    const float* panel = nullptr;
    if constexpr (Gptq) {
      panel = rows.factor + factor_panel(b, block);
      __builtin_memcpy(targets, rows.weights + at, sizeof targets);
      for (int c = 0; c < block; c += 16)
        add_products(rows.errors, begin, panel + c, block, targets + c * hessian_rows);
      panel += begin * block;
    }
    for (int row = 0; row < hessian_rows; row += lanes) {
      const float* weights = rows.weights + at + row;
      const BlockOfRows<block> part{weights, Gptq ? targets + row : weights, panel,
                                    Gptq ? rows.pivots + begin : nullptr,
                                    Gptq ? nullptr : rows.hessian_blocks + begin * block};
      Float amax = set_float(0.0f);
      for (int j = 0; j < block; ++j)
        amax = max_magnitude(magnitude_of(load_float(part.targets + j * hessian_rows)), amax);
      const Mask empty = equal32(as_int(amax), zero());
      const Int best =
          choose32(empty, zero(), best_of_candidates<Scales, Gptq, N>(part, scales, amax));
      const Float multiplier = choose(empty, set_float(0.0f), scales.multiplier(best));
      const Float step = scales.step(best);
      encode_block<block, Gptq, 1, true>(part, &multiplier, &step, errors, nullptr,
                                         rows.codes + at + row);
      store_low_bytes(rows.scales + b * hessian_rows + row, best);
      for (int j = 0; j < block; ++j)
        store_float(rows.errors + at + j * hessian_rows + row, load_float(errors[0] + j * lanes));
    }
  }
}

inline void quantize_hessian_rows(const HessianRows& rows) {
  if (rows.format == Format::nvfp4)
    rows.factor ? quantize_rows<Nvfp4Scales, true, candidates_at_once>(rows)
                : quantize_rows<Nvfp4Scales, false, candidates_at_once>(rows);
  else
    rows.factor ? quantize_rows<Mxfp4Scales, true, mxfp4_window_below + 2>(rows)
                : quantize_rows<Mxfp4Scales, false, mxfp4_window_below + 2>(rows);
}
