// Shapes and arguments of the kernels that attend by block-scaled matrix instructions on sm_120f
// (attention_block_scaled_...), and of those that quantize dense operands for them
// (attention_prepare_...): for the kernels and for the host that launches them.
//
// A block takes the rows of one item (sequence, kv head, run of rows) over all keys that one of
// them sees, or one of `splits` parts of these, 64 keys from a multiple of 64 on at a time. A row
// is a query of one query head, row = query * group + head in the group. Parts are merged by a
// kernel of their own (attention_merge_...).
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"
#include "cuda/attention/args.hpp"

namespace microscale::cuda::attention::block_scaled {

inline constexpr int tile_keys = 64;

/// V with blocks along the tokens, 64 keys of one sequence and head: rows of d, 32 bytes each, then
/// a word of four scales for each. 16-byte half c of row i is half c ^ i / 4 % 2; the word of row i
/// is number i % 32 * d / 32 + i / 32.
struct ValueTile {
  static MICROSCALE_HD constexpr int bytes(int d) { return d * 36; }
  static MICROSCALE_HD constexpr int code(int i, int half) {
    return i * 32 + (half ^ i / 4 % 2) * 16;
  }
  static MICROSCALE_HD constexpr int scale(int d, int i) {
    return d * 32 + (i % 32 * (d / 32) + i / 32) * 4;
  }
};
/// The number, among the tiles of one head, of the first tile of sequence number `sequence`, whose
/// first token is number `first` among those of all sequences. No tile has tokens of two.
MICROSCALE_HD constexpr std::int64_t first_value_tile(std::int64_t first, std::int64_t sequence) {
  return first / tile_keys + sequence;
}

/// Codes or scales of K or V: those of one token and head are contiguous. Strides in bytes. `page`
/// is from sequence to sequence.
struct Part {
  const std::uint8_t* data;
  std::int64_t page, head;
  std::uint32_t token;
};

/// `q` of the base is not used: q is block-scaled, row (token * q_heads + head) after row.
struct Args : AttentionDecodeArgs {
  const std::int32_t* kv_offsets;  // null: kv_tokens for each sequence
  std::int64_t kv_tokens;          // of each sequence, or of all
  const std::uint8_t* q_codes[2];  // two terms; the second null: there is none
  const std::uint8_t* q_scales[2];
  const float* q_factors;                       // of each row, or null
  const float *q_global, *k_global, *v_global;  // null: 1
  Part k, k_scale;
  Part v, v_scale;                  // blocks along d
  const std::uint8_t* value_tiles;  // blocks along the tokens: [kv head][tile]
  std::int64_t head_value_tiles;    // of a head
  std::int32_t merged_rows;         // splits > 1: of an item, as many as there may be
};

/// Where a multiprocessor holds one thread block only, eight warps share the conversion of V to
/// FP16.
MICROSCALE_HD constexpr int warps_of(int d, bool along_tokens) {
  return d == 256 && !along_tokens ? 8 : 4;
}
MICROSCALE_HD constexpr int threads_of(int d, bool along_tokens) {
  return 32 * warps_of(d, along_tokens);
}
/// Rows of a thread block: 16 or 32 of each warp, as many as registers hold.
MICROSCALE_HD constexpr int block_rows_of(int d, int terms, bool along_tokens) {
  return warps_of(d, along_tokens) * (along_tokens || d > 64 || terms == 2 ? 16 : 32);
}

/// V as FP16. d = 256, where registers have no room for addresses: rows of keys with 16 bytes
/// between them and 32 more after eight, so that what is read or written at a time lies in
/// different banks at addresses that differ by constants. Else rows follow each other, and their
/// pieces change places.
struct F16Rows {
  static MICROSCALE_HD constexpr bool padded(int d) { return d == 256; }
  static MICROSCALE_HD constexpr int at(int d, int key) {
    return padded(d) ? key * (2 * d + 16) + key / 8 * 32 : key * (2 * d);
  }
};

/// Bytes of shared memory: q, which keys each row sees, stages of codes of K and of V, V as FP16.
/// Two terms of eight warps' q leave no room for that: with eight, codes of V have one place,
/// behind K's stages, and the next tile's come when these are converted.
struct Shared {
  int query_bytes, seen_bytes, key_bytes, value_bytes, stages, f16_bytes;
  bool one_value_tile;
  MICROSCALE_HD constexpr int stage() const {
    return one_value_tile ? key_bytes : key_bytes + value_bytes;
  }
  MICROSCALE_HD constexpr int f16() const {  // behind the stages' begin
    return stages * stage() + (one_value_tile ? value_bytes : 0);
  }
  MICROSCALE_HD constexpr int bytes() const { return query_bytes + seen_bytes + f16() + f16_bytes; }
};
/// `row`: bytes of a row of q's codes, and of a key's as they lie in shared memory; `scale_words`:
/// of four scales, of such a row; `terms`: of q.
/// Three stages where two blocks fit a multiprocessor with them, else two.
MICROSCALE_HD constexpr Shared shared_of(int d, int row, int scale_words, int terms,
                                         bool along_tokens) {
  const int rows = block_rows_of(d, terms, along_tokens);
  Shared s{rows * (row + 8 * scale_words) * terms,
           rows * 8,
           tile_keys * row,
           along_tokens ? ValueTile::bytes(d) : tile_keys * d / 2,
           3,
           along_tokens ? 0 : F16Rows::at(d, tile_keys),
           false};
  if (s.bytes() > 49 * 1024) s.stages = 2;
  s.one_value_tile = warps_of(d, along_tokens) == 8;
  return s;
}

/// attention_prepare_rows_<format>: rows of a dense tensor, blocks along d. A thread has a block.
struct PrepareHeadsArgs {
  DecodeRows input;  // [batch, tokens, heads, d]
  std::int64_t rows, tokens, heads;
  std::int32_t d;
  std::int32_t terms;      // 1 or 2
  std::int32_t normalize;  // NVFP4: divided by a power of two that goes to `factors`
  std::uint8_t* codes[2];  // [row][d / 2 or d], row = (batch * tokens + token) * heads + head
  std::uint8_t* scales[2];
  float* factors;
};

/// attention_prepare_values_nvfp4: a dense V to ValueTiles. A thread has a block of 16 keys.
struct PrepareValuesArgs {
  DecodeRows input;
  std::int64_t tokens, heads;
  std::int32_t d, sequences;
  const std::int32_t* kv_offsets;  // null: `tokens` for each sequence
  std::int64_t all_tokens;
  std::uint8_t* tiles;
  std::int64_t head_tiles;
  std::int64_t sequence_tiles;  // the most of a sequence that are looked at
};

}  // namespace microscale::cuda::attention::block_scaled
