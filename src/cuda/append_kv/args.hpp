// Shapes and arguments of the kernels that append tokens to a cache, for the kernels and for the
// host that launches them: append_kv_registers_..., append_kv_halves_... (keys that are
// transformed) and append_kv_shared_... (the rest), named after where a row's elements meet.
//
// A warp takes neighbouring tokens of one kv head, in runs: as many whole rows as 1024 elements
// hold. Of a run a lane has four chunks of eight elements, 32 lanes apart. Where tokens go is found
// out for up to 32 of them at a time, by a lane each. Neighbouring warps take the heads of the same
// tokens, so that a block reads memory in one piece.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"
#include "cuda/block/quantize_args.hpp"

namespace microscale::cuda::append {

inline constexpr int warps = 8, threads = 32 * warps;
inline constexpr int run_chunks = 128;  // of a run
inline constexpr int most_windows = 2;  // of tokens with a lane each, of a warp

/// Rows of a run, and runs whose tokens have a lane each.
MICROSCALE_HD constexpr int run_rows(int d) { return run_chunks / (d / 8); }
MICROSCALE_HD constexpr int most_runs(int d) { return 32 / run_rows(d); }
/// Whether the chunks of a run are whole rows, four of them in one column: what
/// append_kv_registers_... take.
MICROSCALE_HD constexpr bool has_whole_rows(int d) { return 256 % d == 0; }
/// Whether every block lies in one half of a row: what append_kv_halves_... take.
MICROSCALE_HD constexpr bool has_halves(int d) { return has_whole_rows(d) && d >= 64; }

/// Codes or scales (KvPart), strides in bytes.
struct Part {
  std::uint8_t* data;
  std::int64_t page, head, token;
};

/// K or V.
struct Side {
  QuantizeArgs rules;  // numerics and global scale alone
  const void* input;   // HeadsView, strides in elements
  std::int64_t batch, token, head;
  std::uint32_t
      token_bytes;    // from a token to the next, in all of input; not of append_kv_shared_...
  std::int32_t type;  // DType
  std::int32_t scale_words;  // scale bytes leave four at a time
  std::int32_t transformed;  // by what Args says: K
  Part codes, scales;
  std::uint16_t* first;  // BF16 copies, where there are any
  std::uint16_t* recent;
};

struct Args {
  Side sides[2];                // one each of blockIdx.z
  const std::int32_t* offsets;  // null: `tokens` for each sequence
  std::int32_t tokens;          // of each sequence, or of all
  std::int32_t all_tokens;      // of all sequences
  std::int32_t sequences;
  std::int32_t kv_heads, d;
  std::int32_t runs;       // whose tokens have a lane each
  std::int32_t turns;      // runs of a warp, a multiple of `runs`
  std::int32_t row_shift;  // has_whole_rows(): log2 of a row's chunks
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

}  // namespace microscale::cuda::append
