// Shapes and arguments of the kernels that attend over a cache with few queries
// (attention_decode_...), for the kernels and for the host that launches them.
//
// A block takes the rows of one item (sequence, kv head, run of rows) over one part of its keys;
// its warps take as many of them each, by chunks of decode_chunk() tokens. Behind those blocks come
// some that merge a row's parts each. A row is a query of one
// query head, row = query * group + head in the group.
#pragma once

#include <cstdint>

#include "cuda/attention/args.hpp"
#include "formats/host_device.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/kv_format.hpp"

namespace microscale::cuda::attention::decode {

inline constexpr int decode_piece = 32;         // tokens that are computed together
inline constexpr int decode_scale_tokens = 16;  // whose scales lie in one piece

/// How tokens of a kernel's d lie: rows as long as that, shorter ones, or whole pages of 16 or 32
/// tokens as kv_page::record() has them.
enum class DecodeTokens { rows, part, records };
/// Bytes of one stage of a warp: K codes, V codes, K scales, V scales of a chunk; decode_places()
/// has where they are if they come as records.
struct DecodeStage {
  int v_codes, k_scales, v_scales, bytes;
};
/// Tokens of a stage of a warp's ring, 64 where they are short, and how many stages it has.
MICROSCALE_HD constexpr int decode_chunk(KvFormat format, int d) {
  return kv_page::token_code_bytes(format, d) + kv_page::token_scale_bytes(format, d) <= 80 ? 64
                                                                                            : 32;
}
MICROSCALE_HD constexpr DecodeStage decode_stage(KvFormat format, int d) {
  const int tokens = decode_chunk(format, d),
            codes = tokens * static_cast<int>(kv_page::token_code_bytes(format, d)),
            scales = tokens * static_cast<int>(kv_page::token_scale_bytes(format, d));
  return {codes, 2 * codes, 2 * codes + scales, 2 * (codes + scales)};
}
MICROSCALE_HD constexpr int decode_stages(KvFormat format, int d) {
  return decode_stage(format, d).bytes <= 5 * 1024 ? 3 : 2;
}
/// Where parts lie in a stage of the kernel for `d`; `scale_row`: bytes of a token's scales, which
/// have no gaps. Where pages are `record` tokens and lie as records, a stage is some of those as
/// they are, so that one copy brings all of them.
MICROSCALE_HD constexpr DecodePlaces decode_places(KvFormat format, int d, int scale_row,
                                                   int record) {
  const int code_row = static_cast<int>(kv_page::token_code_bytes(format, d));
  if (record == 0) {
    const DecodeStage stage = decode_stage(format, d);
    return {stage.v_codes,           stage.k_scales,           stage.v_scales,
            decode_piece * code_row, decode_piece * scale_row, 16 * code_row,
            16 * scale_row};
  }
  const kv_page::Record of = kv_page::record(format, record, d);
  const int bytes = static_cast<int>(of.bytes), piece = decode_piece / record * bytes;
  return {static_cast<int>(of.v_codes),
          static_cast<int>(of.k_scales),
          static_cast<int>(of.v_scales),
          piece,
          piece,
          record == 16 ? bytes : 16 * code_row,
          record == 16 ? bytes : 16 * scale_row};
}
/// The d whose kernel serves another one: rows in shared memory are filled up with zeros.
MICROSCALE_HD constexpr int decode_width(std::int64_t d) {
  return d <= 64 ? 64 : d <= 128 ? 128 : 256;
}
/// Shared memory of a block: the rings, or, later, the warps' sums, then each row's reference and
/// weight; behind them two numbers for the scores of each row, for every warp, the rings'
/// barriers, each warp's place on the multiprocessor, the scale of all values for each warp that
/// computes, and for these what probabilities of 32 tokens are multiplied by, where values come
/// with no scales.
MICROSCALE_HD constexpr int decode_row_terms(KvFormat format, int d, int rows) {
  const int ring = decode_warps * decode_stages(format, d) * decode_stage(format, d).bytes;
  const int sums = decode_warps * rows * (d + 2) * 4;
  return ring > sums ? ring : sums;
}
MICROSCALE_HD constexpr int decode_barriers(KvFormat format, int d, int rows) {
  return decode_row_terms(format, d, rows) + decode_warps * rows * 8;
}
/// A warp's barriers, two for each stage, and behind them a word each.
MICROSCALE_HD constexpr int decode_ring_barriers(KvFormat format, int d) {
  return (decode_stages(format, d) * 20 + 7) / 8 * 8;
}
/// Whether probabilities are multiplied by the scales of values: TurnedValues.
MICROSCALE_HD constexpr bool decode_turns(KvFormat format, int rows) {
  return format == KvFormat::mxfp4 || (format == KvFormat::nvfp4 && rows <= 4);
}
/// A warp's factors of probabilities: FP16, of each token and block.
MICROSCALE_HD constexpr int decode_factor_bytes(KvFormat format, int d, int rows) {
  return decode_turns(format, rows) ? decode_piece * d / kv_page::block(format) * 2 : 0;
}
MICROSCALE_HD constexpr int decode_factors(KvFormat format, int d, int rows) {
  return (decode_barriers(format, d, rows) + decode_warps * decode_ring_barriers(format, d) +
          4 * (2 * decode_warps + 2) + 15) /
         16 * 16;
}
MICROSCALE_HD constexpr int decode_shared_bytes(KvFormat format, int d, int rows) {
  return decode_factors(format, d, rows) + decode_warps * decode_factor_bytes(format, d, rows);
}

}  // namespace microscale::cuda::attention::decode
