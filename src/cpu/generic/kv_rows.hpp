// The rows that append_kv quantizes, as reference/kv_rows.cpp makes them, bit for bit. Included
// inside a target region (cpu/target_region.hpp).

/// Pairs that are `pairs` apart, a multiple of a vector.
inline void rotate_halves(float* row, const float* cos, const float* sin, std::int64_t pairs) {
  const Int top = set32(0x80000000u);
  for (std::int64_t i = 0; i < pairs; i += lanes) {
    const Float x = load_float(row + i), y = load_float(row + pairs + i), c = load_float(cos + i),
                s = load_float(sin + i);
    store_float(row + i, fma(x, c, flip_where(top, mul(y, s))));
    store_float(row + pairs + i, fma(y, c, mul(x, s)));
  }
}

/// Pairs of neighbours, a multiple of as many as a vector has.
inline void rotate_neighbours(float* row, const float* cos, const float* sin, std::int64_t pairs) {
  const Int first = xor_(upper_signs<1>(), set32(0x80000000u));
  for (std::int64_t i = 0; i < pairs; i += lanes / 2) {
    const Float x = load_float(row + 2 * i), turned = mul(swap_neighbours(x), load_twice(sin + i));
    store_float(row + 2 * i, fma(x, load_twice(cos + i), flip_where(first, turned)));
  }
}

/// A row at `position`.
inline void rotate_row(const Rope& rope, std::int64_t position, float* row) {
  const std::int64_t pairs = rope.width / 2;
  const float *const cos = rope.cos + position * pairs, *const sin = rope.sin + position * pairs;
  if (pairs % (rope.interleaved ? lanes / 2 : lanes) != 0)
    rotate_pairs(rope, position, row);
  else if (rope.interleaved)
    rotate_neighbours(row, cos, sin, pairs);
  else
    rotate_halves(row, cos, sin, pairs);
}

inline void hadamard_of_16(float* run) {
  Float x[16 / lanes];
  for (int i = 0; i < 16 / lanes; ++i) x[i] = load_float(run + i * lanes);
  hadamard_run<16>(x);
  for (int i = 0; i < 16 / lanes; ++i) store_float(run + i * lanes, x[i]);
}

inline void transform_row(const AppendKvOptions& o, std::int64_t head, std::int64_t position,
                          float* row) {
  const std::int64_t d = o.cache.d;
  if (o.rope.cos) rotate_row(o.rope, position, row);
  if (o.cache.k_mean)
    for (std::int64_t i = 0; i < d; i += lanes)
      store_float(row + i, sub(load_float(row + i), load_float(o.cache.k_mean + head * d + i)));
  if (o.cache.hadamard != 0)
    for (std::int64_t i = 0; i < d; i += 16) hadamard_of_16(row + i);
  for (std::int64_t i = 0; i < d; i += lanes) store_float(row + i, canonical(load_float(row + i)));
}

/// E4M3 codes of |y| in 32 bits; y is no NaN.
inline Int e4m3_codes(Float y) {
  const Float r = round_to<Fp8E4M3>(as_float(and_(as_int(y), set32(0x7FFFFFFFu)))),
              magic = set_float(Fp8E4M3::subnormal_magic);
  return choose32(less(r, set_float(Fp8E4M3::smallest_normal)),
                  sub32(as_int(add(r, magic)), as_int(magic)),
                  sub32(shr32<20>(as_int(r)), set32((127 - Fp8E4M3::bias) << 3)));
}

inline void fp8_row(const float* values, std::int64_t count, float inverse_scale,
                    std::uint8_t* codes) {
  const Float inverse = set_float(inverse_scale);
  const Int nan_code = set32(0x7F);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const Float y = mul(load_float(values + i), inverse);
    const Int sign = and_(shr32<24>(as_int(y)), set32(0x80));
    store_low_bytes(codes + i, choose32(unordered(y), nan_code, or_(e4m3_codes(y), sign)));
  }
}
