// What every level of FP4 attention is given, and the tile that all of them work on: a thread block
// has 64 queries of one head, each of its four warps 16 of them, and meets 64 keys at a time.
#pragma once

#include <cstdint>

#include "cuda/block/quantize_args.hpp"

namespace levels {

inline constexpr int tile_tokens = 64;         // queries of a block; keys of a tile
inline constexpr int attention_threads = 128;  // of a block
inline constexpr int scale_block = 32;         // elements of a scale

/// All device memory, [head][token][d] without gaps; a batch is more heads. 64 queries a head, keys
/// a multiple of 64.
struct AttentionArgs {
  const void *q, *k, *v;                    // FP32; levels 7 and 8: codes, codes, FP16
  const std::uint8_t *q_scales, *k_scales;  // [head][token][d / 32], levels 7 and 8
  float* o;
  std::int32_t keys;
  float scale;                      // of the scores, times log2(e): weights are powers of two
  microscale::cuda::E8m0Rule rule;  // of the scales, levels 2 to 6
};

/// Level 1: so many matrix instructions, each with operands of its own.
struct ProbeArgs {
  const std::uint32_t* operands;  // [probe][lane][8]: a0 to a3, b0, b1, scale of a, of b
  float* d;                       // [probe][lane][4]
};

}  // namespace levels
