// Products of attention in integers: of rows with 32 keys whose codes lie as 16-bit integers
// (attention_codes.hpp). Compiled with VNNI and without, bit for bit the same.
#pragma once

#include <cstdint>

namespace microscale::avx512 {

/// Scores: of each row, the sum over blocks of (q . codes) * scale, times the row's unit.
struct KeyCodes {
  const std::int16_t* codes;  // [word][nibble i][16 keys, twice][elements i and i + 4 of the word]
  const float* scales;        // [block][32 keys]
  int words, block_words;     // of eight elements: of a row, of a block
};
struct QueryCodes {
  const std::int16_t* codes;  // of a row, in the order of KeyCodes
  const float* unit;          // one a row
  std::int64_t stride;        // from row to row, of codes
};

/// Sums: of each row, output * alpha + the sum over keys of p * scale * codes * unit. The products
/// p * scale of 32 keys and a block go in as multiples of 2^-14 of (nearly) their largest.
struct ValueCodes {
  const std::int16_t* codes;  // [128 elements][keys k and k + 1][nibble i][word][the two keys]
  const float* scales;  // [128 elements][keys k and k + 1][word: its block's of k, or of k + 1]
  std::int64_t stride;  // elements of a row, a multiple of 128
  float unit;
};
struct Weights {
  const float *p, *alpha;  // p: 32 a row
  float* memory;           // of 4 rows, 16 pairs of keys and 16 lanes
};

/// For 1, 2 and 4 rows.
struct AttentionProducts {
  void (*scores[3])(const QueryCodes&, const KeyCodes&, float* scores);
  void (*sums[3])(const Weights&, const ValueCodes&, float* output);
};

/// How many rows the products of place `i` have.
inline constexpr int product_rows[3] = {1, 2, 4};

}  // namespace microscale::avx512

namespace microscale {
extern const avx512::AttentionProducts avx512_products, vnni_products;
}
