// Shapes and arguments of the kernels that append tokens to a cache (append_kv_...,
// append_keys_..., append_rows_...), for the kernels and for the host that launches them.
//
// A warp takes neighbouring tokens of one kv head, in runs: as many whole rows as 1024 elements
// hold. Of a run a lane has four chunks of eight elements, 32 lanes apart. Where tokens go is found
// out for up to 32 of them at a time, by a lane each. Neighbouring warps take the heads of the same
// tokens, so that a block reads memory in one piece.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"
#include "cuda/quantize/args.hpp"

namespace microscale::cuda {

inline constexpr int append_warps = 8, append_threads = 32 * append_warps;
inline constexpr int append_chunks = 128;      // of a run
inline constexpr int append_most_windows = 2;  // of tokens with a lane each, of a warp

/// Rows of a run, and runs whose tokens have a lane each.
MICROSCALE_HD constexpr int append_run_rows(int d) { return append_chunks / (d / 8); }
MICROSCALE_HD constexpr int append_most_runs(int d) { return 32 / append_run_rows(d); }
/// Whether the chunks of a run are whole rows, four of them in one column: what append_kv_... take.
MICROSCALE_HD constexpr bool append_whole(int d) { return 256 % d == 0; }
/// Whether blocks lie in one half of a row: what append_keys_... take, which have chunks of both
/// halves.
MICROSCALE_HD constexpr bool append_halves(int d) { return append_whole(d) && d >= 64; }

/// Codes or scales (KvPart), strides in bytes.
struct AppendPart {
  std::uint8_t* data;
  std::int64_t page, head, token;
};

/// K or V.
struct AppendSide {
  QuantizeArgs rules;  // numerics and global scale alone
  const void* input;   // HeadsView, strides in elements
  std::int64_t batch, token, head;
  std::uint32_t token_bytes;  // from a token to the next, in all of input; not of append_rows_...
  std::int32_t type;          // DType
  std::int32_t scale_words;   // scale bytes leave four at a time
  std::int32_t transformed;   // by what AppendKvArgs says: K
  AppendPart codes, scales;
  std::uint16_t* first;  // BF16 copies, where there are any
  std::uint16_t* recent;
};

struct AppendKvArgs {
  AppendSide sides[2];          // one each of blockIdx.z
  const std::int32_t* offsets;  // null: `tokens` for each sequence
  std::int32_t tokens;          // of each sequence, or of all
  std::int32_t all_tokens;      // of all sequences
  std::int32_t sequences;
  std::int32_t kv_heads, d;
  std::int32_t runs;       // whose tokens have a lane each
  std::int32_t turns;      // runs of a warp, a multiple of `runs`
  std::int32_t row_shift;  // append_whole(): log2 of a row's chunks
  const std::int32_t* lengths;
  const std::int32_t* page_table;  // null: sequence s has page s
  std::int64_t max_pages, pages;
  std::int32_t page_shift;  // log2 of tokens of a page; 31 without a table
  std::int32_t capacity;    // tokens that one sequence can have
  std::int32_t first_count, recent_count;
  // Of a transformed side; each may be null or 0.
  const float* cos;
  const float* sin;
  std::int32_t rope_positions, rope_width, rope_interleaved;
  std::int32_t rope_chunks;  // pairs are whole chunks apart, and tables' chunks at 16 bytes
  std::int32_t hadamard;
  const float* mean;
};

}  // namespace microscale::cuda
