// Rounding FP32 magnitudes to an element type's grid. Included inside a target region.

/// Nearest-even value of y >= 0 on Element's grid, saturated. Adding and subtracting 2^(23 - mantissa bits)
/// times the power of two below y makes the FPU round at the element's last bit.
template <class Element> inline Float round_to(Float y) {
  const Float exponent = as_float(set32(0x7F800000u));
  y = min(y, set_float(Element::largest));
  const Float unit = max(and_float(y, exponent), set_float(Element::smallest_normal));
  const Float magic = set_float(static_cast<float>(1 << (23 - Element::mantissa_bits)));
  const Float shifted = fma(unit, magic, y);
  return fma(unit, sub(set_float(0.0f), magic), shifted);
}

/// Sum of squared (or absolute) rounding errors of Count elements per lane, in block_sum's order.
/// x: magnitudes, element i of every lane at x + i * lanes; weights likewise, or unused.
template <class Element, int Count, bool Weighted, bool Absolute = false>
inline Float error_sum(const float* x, const float* weights, Float multiplier) {
  Float partial[Count / 8];
  const Float sign = as_float(set32(0x7FFFFFFFu));
  for (int g = 0; g < Count / 8; ++g) partial[g] = set_float(0.0f);
  for (int i = 0; i < 8; ++i) {
    for (int g = 0; g < Count / 8; ++g) {
      const int e = g * 8 + i;
      const Float y = mul(load_float(x + e * lanes), multiplier);
      const Float error = sub(y, round_to<Element>(y));
      if constexpr (Absolute) {
        const Float magnitude = and_float(error, sign);
        partial[g] = Weighted ? fma(load_float(weights + e * lanes), magnitude, partial[g])
                              : add(partial[g], magnitude);
      } else {
        partial[g] = fma(Weighted ? mul(load_float(weights + e * lanes), error) : error, error, partial[g]);
      }
    }
  }
  for (int width = Count / 8; width > 1; width /= 2)
    for (int i = 0; i < width / 2; ++i) partial[i] = add(partial[2 * i], partial[2 * i + 1]);
  return partial[0];
}

/// `lanes` blocks of Count elements at `input` as magnitudes, element i of block b at tile[i * lanes + b].
template <DType Type, int Count> inline void load_tile(const void* input, float* tile) {
  alignas(64) float rows[lanes * Count];
  to_floats<Type>(input, lanes * Count, rows);
  const Int mask = set32(0x7FFFFFFFu);
  for (int i = 0; i < lanes * Count; i += lanes) store(rows + i, and_(load(rows + i), mask));
  for (int i = 0; i < Count; i += lanes) transpose(rows + i, Count, tile + i * lanes);
}

template <int Count> inline void load_weights(const float* weights, float* tile) {
  for (int i = 0; i < Count; i += lanes) transpose(weights + i, Count, tile + i * lanes);
}
