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

template <class Elements, int Width>
class AttentionExpand {
 public:
  static constexpr int keys = prefill_keys(Width), pieces = Width / 8;  // of a token
  static constexpr int each = keys * pieces / prefill_expand_threads;
  static constexpr int apart = prefill_expand_threads / pieces;  // tokens from piece to piece

  __device__ static void run(const AttentionExpandArgs& args) {
    follow_previous_grid();
    if (blockIdx.x == 0 && threadIdx.x == 0 && args.counter) *args.counter = 0;
    const PrefillKeys& all = args.keys;
    auto left = static_cast<std::int64_t>(blockIdx.x);
    const int head = static_cast<int>(left % all.heads);
    left /= all.heads;
    const int tile = static_cast<int>(left % all.tiles_each);
    left /= all.tiles_each;
    const int sequence = static_cast<int>(left % all.sequences),
              which = args.first + static_cast<int>(left / all.sequences);
    const KeyRange range(all, sequence);
    const int first = tile * keys;
    if (first >= range.length) return;
    const std::int64_t place =
        head * all.all_tiles + prefill_first_tile(all, sequence, range.begin) + tile;
    constexpr std::int64_t tile_bytes = prefill_tile_bytes(Width);
    std::uint8_t* const to =
        args.tiles[which] + place * (tile_bytes + (which == 0 ? prefill_tile_info : 0));
    auto* const info = reinterpret_cast<PrefillTile*>(
        args.tiles[0] + place * (tile_bytes + prefill_tile_info) + tile_bytes);
    __shared__ int pages[keys];
    __shared__ int reference;
    find_pages(all, sequence, range, first, pages, which == 0 ? info : nullptr);
    if (threadIdx.x == 0) reference = least_reference;
    __syncthreads();
    expand(args.operands[which], all, range, first, head, pages, reference, to);
    if (threadIdx.x == 0)
      (which == 0 ? info->k_exponent : info->v_exponent) = Elements::exponent(reference);
  }

 private:
  /// Of each token of the tile; -1 if there is none.
  __device__ static void find_pages(const PrefillKeys& all, int sequence, const KeyRange& range,
                                    int first, int (&pages)[keys], PrefillTile* info) {
    const int own = static_cast<int>(threadIdx.x), token = first + own;
    bool absent = false;
    if (own < keys) {
      int page = all.offsets ? 0 : sequence;
      if (token >= range.length) {
        page = -1;
      } else if (all.page_table) {
        page = all.page_table[sequence * all.max_pages + (token >> all.page_shift)];
        absent = page < 0 || page >= all.pages;
        if (absent) page = -1;
      }
      pages[own] = page;
    }
    const std::uint32_t present = __ballot_sync(~0u, !absent);
    const int whole = __syncthreads_and(!absent);
    if (!info) return;
    if (own < 128 && own % 32 == 0) info->present[own / 32] = present;
    if (own == 0) info->whole = whole;
  }

  __device__ static void expand(const PrefillOperand& operand, const PrefillKeys& all,
                                const KeyRange& range, int first, int head,
                                const int (&pages)[keys], int& reference, std::uint8_t* to) {
    const int piece = static_cast<int>(threadIdx.x) % pieces,
              row = static_cast<int>(threadIdx.x) / pieces;
    const int mask = (1 << all.page_shift) - 1;
    typename Elements::Raw raw[each] = {};
    std::uint32_t scales[each] = {};
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int page = pages[row + i * apart];
      if (page < 0 || 8 * piece >= all.d) continue;
      const std::int64_t token = range.begin + ((first + row + i * apart) & mask);
      const auto at = [&](const PrefillPlane& plane) {
        return plane.data + page * plane.batch + token * plane.token + head * plane.head;
      };
      raw[i] = Elements::load(at(operand.codes) + piece * Elements::bits);
      if constexpr (Elements::block > 0)
        scales[i] = __ldg(at(operand.scales) + 8 * piece / Elements::block);
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
