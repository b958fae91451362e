// Keys and values of any type to the FP16 tiles of attention_prefill_args.hpp, once; with the
// scales of their blocks inside, without global scales. A block of threads makes one tile: all its
// codes are asked for before the first is looked at.
#pragma once

#include <cstdint>

#include "cuda/attention_prefill_args.hpp"
#include "cuda/tile/attention_elements.cuh"
#include "cuda/tile/attention_prefill_item.cuh"
#include "cuda/tile/grid_order.cuh"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

/// The tile of a block of threads.
struct ExpandTile {
  int head, sequence, which, first;  // 0: K, 1: V; its first token in the sequence
  KeyRange range;
  std::int64_t place;  // of all heads' tiles

  __device__ explicit ExpandTile(const AttentionExpandArgs& args)
      : head(static_cast<int>(blockIdx.x) % args.keys.heads),
        sequence(static_cast<int>(blockIdx.x) / args.keys.heads / args.keys.tiles_each %
                 args.keys.sequences),
        which(args.first + static_cast<int>(blockIdx.x) / args.keys.heads / args.keys.tiles_each /
                               args.keys.sequences),
        range(args.keys, sequence) {
    const int tile = static_cast<int>(blockIdx.x) / args.keys.heads % args.keys.tiles_each;
    first = tile * prefill_keys(args.keys.width);
    place =
        head * args.keys.all_tiles + prefill_first_tile(args.keys, sequence, range.begin) + tile;
    if (blockIdx.x == 0 && threadIdx.x == 0 && args.counter) *args.counter = 0;
  }

  /// Codes or scales of a token of the tile.
  __device__ const std::uint8_t* row(const PrefillKeys& keys, const PrefillPlane& plane, int page,
                                     int token) const {
    const std::int64_t of_page = range.begin + ((first + token) & ((1 << keys.page_shift) - 1));
    return plane.data + page * plane.batch + of_page * plane.token + head * plane.head;
  }
};

/// Page of each token of the tile, -1 if there is none; and with K which there are.
template <int Keys>
__device__ void find_pages(const PrefillKeys& all, const ExpandTile& at, int (&pages)[Keys],
                           PrefillTile* info) {
  const int own = static_cast<int>(threadIdx.x), token = at.first + own;
  bool absent = false;
  if (own < Keys) {
    int page = all.offsets ? 0 : at.sequence;
    if (token >= at.range.length) {
      page = -1;
    } else if (all.page_table) {
      page = all.page_table[at.sequence * all.max_pages + (token >> all.page_shift)];
      absent = page < 0 || page >= all.pages;
      if (absent) page = -1;
    }
    pages[own] = page;
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
    __shared__ int pages[keys];
    __shared__ int reference;
    find_pages(args.keys, at, pages, info);
    if (threadIdx.x == 0) reference = least_reference;
    __syncthreads();
    expand(args, at, pages, reference, to);
    if (threadIdx.x == 0)
      (at.which == 0 ? info->k_exponent : info->v_exponent) = Elements::exponent(reference);
  }

 private:
  __device__ static void expand(const AttentionExpandArgs& args, const ExpandTile& at,
                                const int (&pages)[keys], int& reference, std::uint8_t* to) {
    const PrefillOperand& operand = args.operands[at.which];
    const int piece = static_cast<int>(threadIdx.x) % pieces,
              row = static_cast<int>(threadIdx.x) / pieces;
    typename Elements::Raw raw[each] = {};
    std::uint32_t scales[each] = {};
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int page = pages[row + i * apart];
      if (page < 0 || 8 * piece >= args.keys.d) continue;
      raw[i] = Elements::load(at.row(args.keys, operand.codes, page, row + i * apart) +
                              piece * Elements::bits);
      if constexpr (Elements::block > 0)
        scales[i] = __ldg(at.row(args.keys, operand.scales, page, row + i * apart) +
                          8 * piece / Elements::block);
    }
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

}  // namespace microscale::cuda
