// What kernels of attention are given that take rows of items over parts of the keys
// (attention_decode_..., and with more attention_block_scaled_... and attention_merge_...), and
// where they leave the sums of parts. A row is a query of one query head, row = query * group +
// head in the group.
#pragma once

#include <cstdint>

#include "cuda/device/kernel_types.hpp"
#include "formats/host_device.hpp"

namespace microscale::cuda::attention {

/// Those that compute; one more brings keys and values.
inline constexpr int decode_warps = 3, decode_threads = 32 * (decode_warps + 1);
inline constexpr int decode_most_splits = 256;

/// Codes or scales of K or V (KvPart), strides in units of 16 bytes: of scales' tokens, those
/// of 16.
struct DecodePart {
  const std::uint8_t* data;
  std::uint32_t page, head, token;
};
/// Which part of a cache.
enum { decode_k_codes, decode_v_codes, decode_k_scales, decode_v_scales, decode_parts };
/// Rows of q or of the result (HeadsView), strides in elements.
struct DecodeRows {
  void* data;
  std::int64_t batch, token, head;
  std::int32_t type;  // DType
};

/// Where a stage's parts lie, in bytes from its first K codes on, and tokens in them.
struct DecodePlaces {
  std::int32_t v_codes, k_scales, v_scales;
  std::int32_t piece_codes, piece_scales;      // from decode::decode_piece tokens to the next
  std::int32_t sixteen_codes, sixteen_scales;  // from the first 16 of them to the others
};

struct AttentionDecodeArgs {
  DecodeRows q, output;
  float* log_sum_exp;             // null: not
  const float* sinks;             // null: none
  const std::int32_t* q_offsets;  // null: q_tokens for each sequence
  std::int64_t q_tokens;          // of each sequence, or of all
  std::int64_t most_q;            // queries of a sequence that are taken
  DecodePart cache[decode_parts];
  const std::int32_t* page_table;  // null: sequence s has page s
  std::int64_t max_pages, pages;
  std::int32_t contiguous;  // the codes of a page's and head's tokens lie side by side
  std::int32_t run;         // tokens that are in one page if one of them is: 16, 32 or 64
  std::int32_t record;      // decode::DecodeTokens::records: of a page
  DecodePlaces places;      // decode::decode_places() of them
  std::int32_t page_shift;  // log2 of tokens of a page; 30 without a table
  const std::int32_t* lengths;
  std::int64_t most_keys;      // of a sequence that are taken
  const float* global_scales;  // K's and V's, or null
  const float* mean;           // of K, [kv_heads, d]; null: none
  std::int32_t hadamard;       // 16: runs of q are transformed; 0: not
  float scale_log2;            // scale / ln 2
  float softcap_log2;          // softcap / ln 2; 0: none
  std::int32_t scores_change;  // by the mean or the softcap
  std::int64_t window;         // 0: all
  std::int32_t causal;
  std::int32_t q_heads, kv_heads, group;
  std::int32_t d;                // at most that of the kernel
  const std::uint16_t* first_k;  // BF16 copies of first tokens, then of recent ones (KvCopies)
  const std::uint16_t* first_v;
  const std::uint16_t* recent_k;
  const std::uint16_t* recent_v;
  std::int64_t first_count, recent_count;
  std::int32_t items, passes;  // of the call; of a sequence and head
  std::int32_t splits;         // of the keys
  Divisor by_kv_heads, by_group, by_passes, by_splits;
  Divisor by_warps;  // of all parts of the keys
  float* partial;    // splits > 1: decode_partial_floats()
};
/// What attention_decode_... take: splits > 1 has blocks that merge parts.
struct AttentionMergedArgs : AttentionDecodeArgs {
  std::uint64_t* flags;      // decode_flags(), for each part of a row whether it has been put
  std::uint64_t ticket;      // what a flag says then: a number that no other call has
  std::int32_t merged_rows;  // of an item, as many as there may be, each by a block of its own
};

/// Parts: of each item and part rows * d sums, then for all of them rows pairs of reference and
/// weight.
MICROSCALE_HD constexpr std::int64_t decode_sums_floats(std::int64_t items, int parts, int rows,
                                                        int d) {
  return items * parts * rows * d;
}
MICROSCALE_HD constexpr std::int64_t decode_partial_floats(std::int64_t items, int parts, int rows,
                                                           int d) {
  return decode_sums_floats(items, parts, rows, d + 2);
}
/// Behind them a flag of each item, row that is merged, and part.
MICROSCALE_HD constexpr std::int64_t decode_flags(std::int64_t items, int parts, int merged_rows) {
  return items * parts * merged_rows;
}

}  // namespace microscale::cuda::attention
