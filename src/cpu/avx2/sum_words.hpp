// Sums of products of bytes with AVX2. Included inside a target region.

inline Int word_everywhere(const std::int8_t* p) {
  std::uint32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return set32(word);
}

/// Sums of two products fit 16 bits, four words of them: 4 * 2 * 24 * 12.
inline Int sum_words(const Int (&x)[4], const std::int8_t* w, Int start) {
  Int pairs = dot8(x[0], word_everywhere(w));
  MICROSCALE_UNROLL
  for (int i = 1; i < 4; ++i) pairs = add16(pairs, dot8(x[i], word_everywhere(w + 4 * i)));
  return add32(dot16(pairs, set16(1)), start);
}
