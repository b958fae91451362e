// Rows of a in FP32, on their way into the order in which a kernel wants them. Included inside a
// target region (cpu/target_region.hpp), after dense.hpp.

/// Whether a finite number of `count`, a multiple of lanes, is 2^100 or more.
inline bool any_too_large(const float* values, std::int64_t count) {
  const Float below = set_float(0x1.fffffep+99f), infinity = set_float(__builtin_inff());
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < count; i += lanes) {
    const Float v = as_float(and_(as_int(load_float(values + i)), magnitude_mask32()));
    found |= bits_of(both(less(below, v), less(v, infinity)));
  }
  return found != 0;
}

/// Elements [at, at + Count) of a row, zeros behind k. False as
/// cpu::blocks_to_floats is, of dense rows for a finite number of 2^100 or more.
template <int Count>
inline bool load_elements(const MatmulRows& a, std::int64_t row, std::int64_t at, std::int64_t k,
                          float* values) {
  const std::int64_t valid = k - at < Count ? k - at : Count;
  for (std::int64_t i = valid; i < Count; ++i) values[i] = 0.0f;
  if (!a.dense()) return cpu::blocks_to_floats(a, row, at, valid, values);
  const std::uint8_t* p = a.data + row * a.stride + at * size_of(a.dtype);
  for (int line = 0; line < Count * size_of(a.dtype); line += 64) prefetch_line(p, 1024 + line);
  to_floats(p, a.dtype, valid, values);
  return !any_too_large(values, valid);
}
