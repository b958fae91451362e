// How much of a product AVX2's 16 registers hold. Included inside a target region.

inline constexpr int outer_vectors = 2, outer_cols = 6;  // of outer products
inline constexpr int codes_vectors = 1, codes_cols = 8;  // of codes in blocks of 16
