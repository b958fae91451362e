// The rows that append_kv quantizes, as reference/kv_rows.cpp makes them, bit for bit. Included
// inside a target region (cpu/target_region.hpp).

/// Where bit `Distance` of an element's place in its run is set: the sign bit.
template <int Distance>
inline Int upper_signs() {
  alignas(64) static constexpr std::uint32_t top = 0x80000000u;
  alignas(64) static constexpr std::uint32_t signs[4][16] = {
      {0, top, 0, top, 0, top, 0, top, 0, top, 0, top, 0, top, 0, top},
      {0, 0, top, top, 0, 0, top, top, 0, 0, top, top, 0, 0, top, top},
      {0, 0, 0, 0, top, top, top, top, 0, 0, 0, 0, top, top, top, top},
      {0, 0, 0, 0, 0, 0, 0, 0, top, top, top, top, top, top, top, top}};
  return load(signs[Distance == 1 ? 0 : Distance == 2 ? 1 : Distance == 4 ? 2 : 3]);
}

inline Float flip_where(Int signs, Float x) { return as_float(xor_(as_int(x), signs)); }

/// The first level of a transform, which also scales.
inline Float hadamard_pairs(Float x) {
  const Float scale = set_float(0.25f);  // of runs of 16
  return fma(even_lanes(x), scale, flip_where(upper_signs<1>(), mul(odd_lanes(x), scale)));
}

/// A later level between lanes `Distance` apart.
template <int Distance>
inline Float hadamard_lanes(Float x) {
  return add(swap_lanes<Distance>(x), flip_where(upper_signs<Distance>(), x));
}

/// A run of 16.
inline void hadamard_run(float* run) {
  if constexpr (lanes == 16) {
    Float x = hadamard_lanes<2>(hadamard_pairs(load_float(run)));
    x = hadamard_lanes<8>(hadamard_lanes<4>(x));
    store_float(run, x);
  } else {
    const Float a = hadamard_lanes<4>(hadamard_lanes<2>(hadamard_pairs(load_float(run)))),
                b = hadamard_lanes<4>(hadamard_lanes<2>(hadamard_pairs(load_float(run + 8))));
    store_float(run, add(a, b));
    store_float(run + 8, sub(a, b));
  }
}

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

/// Pairs of neighbours, a multiple of half a vector of them.
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
  if (pairs % lanes != 0)
    rotate_pairs(rope, position, row);
  else if (rope.interleaved)
    rotate_neighbours(row, cos, sin, pairs);
  else
    rotate_halves(row, cos, sin, pairs);
}

inline void transform_row(const AppendKvOptions& o, std::int64_t head, std::int64_t position,
                          float* row) {
  const std::int64_t d = o.cache.d;
  if (o.rope.cos) rotate_row(o.rope, position, row);
  if (o.cache.k_mean)
    for (std::int64_t i = 0; i < d; i += lanes)
      store_float(row + i, sub(load_float(row + i), load_float(o.cache.k_mean + head * d + i)));
  if (o.cache.hadamard != 0)
    for (std::int64_t i = 0; i < d; i += 16) hadamard_run(row + i);
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
