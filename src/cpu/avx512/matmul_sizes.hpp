// How much of a product AVX-512's 32 registers hold. Included inside a target region.

inline constexpr int outer_vectors = 2, outer_cols = 8;  // of outer products
inline constexpr int codes_vectors = 2, codes_cols = 8;  // of codes in blocks of 16
