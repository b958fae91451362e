// Sums of products of bytes with AVX2. Included inside a target region.

inline Int word_everywhere(const std::int8_t* p) {
  std::uint32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return set32(word);
}

/// Sums of two products fit 16 bits for as many words as a block has: 8 * 2 * 24 * 12.
template <int Words>
inline Int sum_words(const Int (&x)[Words], const std::int8_t* w, Int start) {
  static_assert(Words <= 8);
  Int pairs = dot8(x[0], word_everywhere(w));
  MICROSCALE_UNROLL
  for (int i = 1; i < Words; ++i) pairs = add16(pairs, dot8(x[i], word_everywhere(w + 4 * i)));
  return add32(dot16(pairs, set16(1)), start);
}
