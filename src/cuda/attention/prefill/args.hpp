// Shapes and arguments of the kernels that attend with many queries (attention_expand_...,
// attention_prefill_...), for the kernels and for the host that launches them.
//
// A row is a query of one query head, row = query * group + head in the group, as in
// cuda/attention/decode/args.hpp. An item is up to 128 rows of one sequence and kv head.
//
// Keys and values become FP16 first, in tiles of `keys` tokens in the workspace:
//
//   [kv head][tile][chunk of 64 elements of d][group of 8 tokens][8 tokens x 128 bytes]
//
// A chunk's rows are those of layouts/token_tiles.hpp. A tile of K is followed by its PrefillTile.
// Tiles of different sequences share none; what is behind the end of a sequence is zero.
//
// MXFP4 may become E5M2 instead (probabilities in FP8): K [kv head][tile][group of 8 tokens][8 x
// 128 elements], V transposed, [kv head][tile][group of 8 elements][8 x 128 tokens], in the order
// of fp8_key_place.
#pragma once

#include <cstdint>

#include "cuda/device/kernel_types.hpp"
#include "formats/host_device.hpp"

namespace microscale::cuda::attention::prefill {

inline constexpr int prefill_rows = 128, prefill_threads = 384;
inline constexpr int prefill_expand_threads = 256;

/// d is filled up with zeros to the next of these.
MICROSCALE_HD constexpr int prefill_width(int d) { return d <= 64 ? 64 : d <= 128 ? 128 : 256; }
/// Tokens of a tile.
MICROSCALE_HD constexpr int prefill_keys(int width) { return width == 256 ? 64 : 128; }
/// `element`: bytes of one, 2 or in FP8 1.
MICROSCALE_HD constexpr int prefill_tile_bytes(int width, int element = 2) {
  return prefill_keys(width) * width * element;
}

/// What belongs to a tile of K and V; the numbers in a tile are to be multiplied by 2^exponent.
struct alignas(16) PrefillTile {
  std::int32_t k_exponent, v_exponent;
  std::int32_t whole, unused;  // whole: no token is absent
  std::uint32_t present[4];    // bit by bit; a token of no page is absent
};
inline constexpr int prefill_tile_info = 128;  // bytes kept for it

/// Stages of a block's rings, and where its shared memory has them; `bytes` in all.
struct PrefillShared {
  int query_stages, stages;
  int k, v, items, factors, marks, barriers, bytes;
};
MICROSCALE_HD constexpr PrefillShared prefill_shared(int width, int element = 2) {
  PrefillShared s{};
  s.query_stages = width == 256 ? 1 : 2;
  s.stages = width * element <= 128 ? 4 : 2;
  const int query = prefill_rows * width * element, tile = prefill_tile_bytes(width, element);
  s.v = s.query_stages * query;
  s.k = s.v + s.stages * tile;
  s.items = s.k + s.stages * (tile + 1024);  // tiles at multiples of 1024
  s.factors = s.items + s.query_stages * 128;
  s.marks = s.factors + s.query_stages * prefill_rows * 4;
  s.barriers = s.marks + 256 * 4;  // of those who compute
  s.bytes = s.barriers + 16 * (2 * s.query_stages + 2 * s.stages + 1);
  return s;
}

/// What the elements of q, k or v are.
enum class PrefillElement : std::int32_t {
  f32,
  f16,
  bf16,
  e4m3,
  nvfp4,
  mxfp4,
  mxfp8_e4m3,
  mxfp8_e5m2
};

/// Rows of d elements, and of their scales; strides in bytes. `batch`: of q, or from page to page.
struct PrefillPlane {
  const std::uint8_t* data;
  std::int64_t batch, token, head;
};
struct PrefillOperand {
  PrefillPlane codes, scales;
  const float* global;  // null: 1
  PrefillElement element;
};

/// Which keys there are, and where.
struct PrefillKeys {
  std::int32_t sequences, heads;
  std::int32_t most;               // of a sequence that are taken
  std::int32_t tiles_each;         // of a sequence, at most
  std::int64_t tokens;             // of each sequence, or of all; a cache: no matter
  std::int64_t all_tiles;          // of a head
  const std::int32_t* offsets;     // null: `tokens` each
  const std::int32_t* lengths;     // of a cache, else null
  const std::int32_t* page_table;  // null: sequence s has page s
  std::int64_t max_pages, pages;
  std::int32_t page_shift;  // log2 of tokens of a page; 30 without a table
  std::int32_t d, width;
};

/// Where a token of a run of 32 stands in a row of transposed V, so that a thread's scores, once
/// they are probabilities, are the first operand of the second product.
MICROSCALE_HD constexpr int fp8_key_place(int key) {
  return key / 16 * 16 + key % 8 / 2 * 4 + key / 8 % 2 * 2 + key % 2;
}

/// One launch for K, V or both, a block of threads a tile: of all heads those of the same tokens
/// first, then further tokens, sequences, V.
struct AttentionExpandArgs {
  PrefillKeys keys;
  Divisor by_heads, by_tiles, by_sequences;  // of `keys`
  PrefillOperand operands[2];
  std::int32_t first, count;  // 0: K, 1: V
  std::uint8_t* tiles[2];
  std::uint32_t* counter;  // becomes 0
};

struct PrefillOutput {
  void* data;
  std::int64_t batch, token, head;  // strides in elements
  std::int32_t type;                // DType
};
struct AttentionPrefillArgs {
  PrefillKeys keys;
  PrefillOperand q;
  PrefillOutput output;
  float* log_sum_exp;             // null: not
  const float* sinks;             // null: none
  const std::int32_t* q_offsets;  // null: q_tokens for each sequence
  std::int64_t q_tokens;          // of each sequence, or of all
  std::int64_t most_q;            // queries of a sequence that are taken
  const std::uint8_t* tiles[2];
  const float* globals[2];  // of K and V, null: 1
  std::uint32_t* counter;   // the next item but those that blocks begin with
  float scale_log2;         // |scale| / ln 2, 1 if that is 0
  float sign;               // of scale: 1, -1 or 0
  float softcap_log2;       // softcap / ln 2
  std::int32_t window;      // 0: all
  std::int32_t causal;
  std::int32_t group;
  std::int32_t items, passes;  // of all; of a sequence and kv head
  std::int32_t section;        // sequences and heads whose items are mixed
};

/// Tiles of one head in front of a sequence; `begin`: its first token.
MICROSCALE_HD constexpr std::int64_t prefill_first_tile(const PrefillKeys& keys, int sequence,
                                                        std::int64_t begin) {
  // Each sequence has at least as many tiles behind the one before it as that one needs.
  return keys.offsets ? begin / prefill_keys(keys.width) + sequence
                      : std::int64_t{sequence} * keys.tiles_each;
}

}  // namespace microscale::cuda::attention::prefill
