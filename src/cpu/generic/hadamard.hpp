// The orthonormal Hadamard transform of formats/producers.hpp, lane by lane. Included inside a
// target region (cpu/target_region.hpp).

/// The sign bit where bit `Distance` of a lane's number is set.
template <int Distance>
inline Int upper_signs() {
  static constexpr std::uint32_t top = 0x80000000u;
  alignas(64) static constexpr std::uint32_t signs[4][16] = {
      {0, top, 0, top, 0, top, 0, top, 0, top, 0, top, 0, top, 0, top},
      {0, 0, top, top, 0, 0, top, top, 0, 0, top, top, 0, 0, top, top},
      {0, 0, 0, 0, top, top, top, top, 0, 0, 0, 0, top, top, top, top},
      {0, 0, 0, 0, 0, 0, 0, 0, top, top, top, top, top, top, top, top}};
  return load(signs[Distance == 1 ? 0 : Distance == 2 ? 1 : Distance == 4 ? 2 : 3]);
}

inline Float flip_where(Int signs, Float x) { return as_float(xor_(as_int(x), signs)); }

/// The first level, which also scales.
inline Float hadamard_pairs(Float x, Float scale) {
  return fma(even_lanes(x), scale, flip_where(upper_signs<1>(), mul(odd_lanes(x), scale)));
}

/// A later level between lanes `Distance` apart.
template <int Distance>
inline Float hadamard_lanes(Float x) {
  return add(swap_lanes<Distance>(x), flip_where(upper_signs<Distance>(), x));
}

/// A run of Order elements in Count vectors.
template <int Order, int Count = Order / lanes>
inline void hadamard_run(Float (&x)[Count]) {
  constexpr float constant = microscale::hadamard_scale(Order);
  const Float scale = set_float(constant);
  MICROSCALE_UNROLL
  for (int i = 0; i < Count; ++i) {
    x[i] = hadamard_lanes<4>(hadamard_lanes<2>(hadamard_pairs(x[i], scale)));
    if constexpr (lanes == 16) x[i] = hadamard_lanes<8>(x[i]);
  }
  MICROSCALE_UNROLL
  for (int distance = 1; distance < Count; distance *= 2) MICROSCALE_UNROLL
  for (int i = 0; i < Count; ++i)
    if ((i & distance) == 0) {
      const Float lower = x[i];
      x[i] = add(lower, x[i + distance]);
      x[i + distance] = sub(lower, x[i + distance]);
    }
}
