// Keys and values of any type to the FP16 tiles of args.hpp, once; with the
// scales of their blocks inside, without global scales. A block of threads makes one tile: all its
// codes are asked for before the first is looked at.
#pragma once

#include <cstdint>

#include "cuda/attention/prefill/args.hpp"
#include "cuda/ptx/control.cuh"
#include "cuda/attention/prefill/elements.cuh"
#include "cuda/attention/prefill/item.cuh"
#include "cuda/block/grid_order.cuh"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda::attention::prefill {

/// The tile of a block of threads.
struct ExpandTile {
  int head, sequence, which, first;  // 0: K, 1: V; its first token in the sequence
  KeyRange range;
  std::int64_t place;  // of all heads' tiles

  __device__ explicit ExpandTile(const AttentionExpandArgs& args)
      : ExpandTile(args, static_cast<int>(blockIdx.x),
                   args.by_heads.divide(static_cast<int>(blockIdx.x))) {}

 private:
  __device__ ExpandTile(const AttentionExpandArgs& args, int block, int of_heads)
      : ExpandTile(args, of_heads, args.by_tiles.divide(of_heads),
                   block - of_heads * args.keys.heads) {}
  __device__ ExpandTile(const AttentionExpandArgs& args, int of_heads, int of_tiles, int own_head)
      : head(own_head),
        sequence(of_tiles - args.by_sequences.divide(of_tiles) * args.keys.sequences),
        which(args.first + args.by_sequences.divide(of_tiles)),
        range(args.keys, sequence) {
    const int tile = of_heads - of_tiles * args.keys.tiles_each;
    first = tile * prefill_keys(args.keys.width);
    place =
        head * args.keys.all_tiles + prefill_first_tile(args.keys, sequence, range.begin) + tile;
    if (blockIdx.x == 0 && threadIdx.x == 0 && args.counter) *args.counter = 0;
  }
};

/// Where a token's codes and scales are; null where there is no token.
struct alignas(16) ExpandRow {
  const std::uint8_t *codes, *scales;
};

/// The tile's rows, a thread for each; and with K which there are. Whole after a barrier.
template <int Keys>
__device__ void find_rows(const AttentionExpandArgs& args, const ExpandTile& at,
                          ExpandRow (&rows)[Keys], PrefillTile* info) {
  const PrefillKeys& all = args.keys;
  const auto own = threadIdx.x;
  const int token = at.first + static_cast<int>(own);
  bool absent = false;
  if (own < Keys) {
    int page = all.offsets ? 0 : at.sequence;
    bool there = token < at.range.length;
    if (there && all.page_table) {
      page = all.page_table[at.sequence * all.max_pages + (token >> all.page_shift)];
      absent = page < 0 || page >= all.pages;
      there = !absent;
    }
    const std::int64_t of_page = at.range.begin + (token & ((1 << all.page_shift) - 1));
    const auto row = [&](const PrefillPlane& plane) {
      return there ? plane.data + page * plane.batch + of_page * plane.token + at.head * plane.head
                   : nullptr;
    };
    const PrefillOperand& operand = args.operands[at.which];
    rows[own] = {row(operand.codes), row(operand.scales)};
  }
  const std::uint32_t present = __ballot_sync(~0u, !absent);
  const int whole = __syncthreads_and(!absent);
  if (at.which != 0) return;
  if (own < 128 && own % 32 == 0) info->present[own / 32] = present;
  if (own == 0) info->whole = whole;
}

template <class Elements, int Width>
class AttentionExpand {
 public:
  static constexpr int keys = prefill_keys(Width), pieces = Width / 8;  // of a token
  static constexpr int each = keys * pieces / prefill_expand_threads;
  static constexpr int apart = prefill_expand_threads / pieces;  // tokens from piece to piece

  __device__ static void run(const AttentionExpandArgs& args) {
    follow_previous_grid();
    const ExpandTile at(args);
    if (at.first >= at.range.length) return;
    constexpr std::int64_t bytes = prefill_tile_bytes(Width);
    std::uint8_t* const to =
        args.tiles[at.which] + at.place * (bytes + (at.which == 0 ? prefill_tile_info : 0));
    auto* const info = reinterpret_cast<PrefillTile*>(
        args.tiles[0] + at.place * (bytes + prefill_tile_info) + bytes);
    __shared__ ExpandRow rows[keys];
    __shared__ int reference;
    if (threadIdx.x == 0) reference = least_reference;
    find_rows(args, at, rows, info);
    expand(args.keys.d, rows, reference, to);
    if (threadIdx.x == 0)
      (at.which == 0 ? info->k_exponent : info->v_exponent) = Elements::exponent(reference);
  }

 private:
  __device__ static void expand(int d, const ExpandRow (&rows)[keys], int& reference,
                                std::uint8_t* to) {
    const std::uint32_t piece = threadIdx.x % pieces, row = threadIdx.x / pieces;
    typename Elements::Raw raw[each] = {};
    std::uint32_t scales[each] = {};
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const ExpandRow from = rows[row + i * apart];
      if (!from.codes || 8 * static_cast<int>(piece) >= d) continue;
      raw[i] = Elements::load(from.codes + piece * Elements::bits);
      if constexpr (Elements::block > 0)
        scales[i] = __ldg(from.scales + 8 * piece / Elements::block);
    }
    if constexpr (Elements::block > 0)
      ptx::keep_in_place(scales);  // all are asked for before one is looked at
    if constexpr (Elements::relative) {
      int largest = 0;
#pragma unroll
      for (int i = 0; i < each; ++i) largest = max(largest, Elements::reference(raw[i], scales[i]));
      largest = __reduce_max_sync(~0u, largest);
      if (threadIdx.x % 32 == 0) atomicMax(&reference, largest);
      __syncthreads();
    }
    const int power = reference;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      std::uint32_t w[4];
      Elements::halves(raw[i], scales[i], power, w);
      ptx::st_global_v4(to + prefill_place<keys>(row + i * apart, piece),
                        make_uint4(w[0], w[1], w[2], w[3]));
    }
  }
};

}  // namespace microscale::cuda::attention::prefill
