// Rounding FP32 magnitudes to an element type's grid. Included inside a target region.

/// Nearest-even value of y >= 0 on Element's grid, saturated. Adding and subtracting 2^(23 -
/// mantissa bits) times the power of two below y makes the FPU round at the element's last bit.
template <class Element>
inline Float round_to(Float y) {
  y = min_magnitude(y, set_float(Element::largest));
  const Float unit = max_magnitude(and_float(y, as_float(set32(0x7F800000u))),
                                   set_float(Element::smallest_normal));
  return round_at<23 - Element::mantissa_bits>(y, unit);
}

/// Sums of squared (or absolute) rounding errors of Count elements per lane, in block_sum's order,
/// for N multipliers at once: their chains of additions are independent and fill the pipelines. x:
/// magnitudes, element i of every lane at x + i * lanes; weights likewise, or unused.
template <class Element, int Count, int N, bool Weighted, bool Absolute = false>
inline void error_sums(const float* x, const float* weights, const Float* multipliers,
                       Float* sums) {
  Float partial[N][Count / 8];
  const Float magnitude = as_float(set32(0x7FFFFFFFu));
  MICROSCALE_UNROLL
  for (int g = 0; g < Count / 8; g += 2) {  // two groups of eight at a time
    MICROSCALE_UNROLL
    for (int n = 0; n < N; ++n) partial[n][g] = partial[n][g + 1] = set_float(0.0f);
    MICROSCALE_UNROLL
    for (int i = 0; i < 16; ++i) {
      const int e = (g + i % 2) * 8 + i / 2;
      const Float value = load_float(x + e * lanes);
      MICROSCALE_UNROLL
      for (int n = 0; n < N; ++n) {
        Float& sum = partial[n][g + i % 2];
        const Float y = mul(value, multipliers[n]);
        const Float error = sub(y, round_to<Element>(y));
        if constexpr (Absolute && Weighted)
          sum = fma(load_float(weights + e * lanes), and_float(error, magnitude), sum);
        else if constexpr (Absolute)
          sum = add(sum, and_float(error, magnitude));
        else
          sum = fma(Weighted ? mul(load_float(weights + e * lanes), error) : error, error, sum);
      }
    }
  }
  MICROSCALE_UNROLL
  for (int n = 0; n < N; ++n) {
    MICROSCALE_UNROLL
    for (int width = Count / 8; width > 1; width /= 2)
      for (int i = 0; i < width / 2; ++i)
        partial[n][i] = add(partial[n][2 * i], partial[n][2 * i + 1]);
    sums[n] = partial[n][0];
  }
}

/// `lanes` blocks of Count elements at `input` as magnitudes, element i of block b at tile[i *
/// lanes + b].
template <DType Type, int Count>
inline void load_tile(const void* input, float* tile) {
  alignas(64) float rows[lanes * Count];
  to_floats<Type>(input, lanes * Count, rows);
  const Int mask = set32(0x7FFFFFFFu);
  for (int i = 0; i < lanes * Count; i += lanes) store(rows + i, and_(load(rows + i), mask));
  for (int i = 0; i < Count; i += lanes) transpose(rows + i, Count, tile + i * lanes);
}

template <int Count>
inline void load_weights(const float* weights, float* tile) {
  for (int i = 0; i < Count; i += lanes) transpose(weights + i, Count, tile + i * lanes);
}
