// The copying warpgroup of kernel.cuh. Its first warp brings tiles of K and V. The other
// three take items from the counter and bring an item's rows of q to shared memory, each with the
// number that its scores are to be multiplied by. They take the next one when the last tiles of
// this one are under way: sooner, and a block at work on a long one would keep it from the others.
#pragma once

#include <cstdint>

#include "cuda/attention/prefill/args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/attention/codes.cuh"
#include "cuda/attention/prefill/elements.cuh"
#include "cuda/attention/prefill/item.cuh"
#include "cuda/block/stage_ring.cuh"

namespace microscale::cuda::attention::prefill {

inline constexpr int query_warps = 3;

/// Shared memory of a block; a ring of items, and with it of q: `found` when the item is known,
/// `query` when its rows are there, too.
template <int Width, int Element>
struct PrefillRings {
  static constexpr int width = Width, element = Element;
  static constexpr PrefillShared shared = prefill_shared(Width, Element);
  static constexpr int keys = prefill_keys(Width), tile_bytes = prefill_tile_bytes(Width, Element);
  static constexpr int query_bytes = prefill_rows * Width * Element, k_stage = tile_bytes + 1024;
  static constexpr int barriers = shared.barriers;
  static constexpr int readers = 8;  // warps

  std::uint32_t base;
  StageRing<shared.query_stages> found, query;
  StageRing<shared.stages> k, v;
  StageRing<1> wanted;  // the next item

  __device__ explicit PrefillRings(std::uint32_t at)
      : base(at),
        found(at + barriers),
        query(at + barriers + 16 * shared.query_stages),
        k(at + barriers + 32 * shared.query_stages),
        v(at + barriers + 32 * shared.query_stages + 16 * shared.stages),
        wanted(at + barriers + 32 * (shared.query_stages + shared.stages)) {}
  __device__ void init() const {
    found.init(1);
    query.init(readers + 1, 32 * query_warps);  // the warp that copies K and V reads items, too
    k.init(readers);
    v.init(readers);
    wanted.init(1);
  }

  __device__ std::uint32_t query_rows() const { return base + query.stage() * query_bytes; }
  __device__ std::uint32_t k_tile() const { return base + shared.k + k.stage() * k_stage; }
  __device__ std::uint32_t v_tile() const { return base + shared.v + v.stage() * tile_bytes; }
  __device__ static unsigned char* memory() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  __device__ static PrefillItem& item(int stage) {
    return *reinterpret_cast<PrefillItem*>(memory() + shared.items + 128 * stage);
  }
  __device__ float* factors() const {
    return reinterpret_cast<float*>(memory() + shared.factors) + prefill_rows * query.stage();
  }
};

/// One warp: K and V, the last tile of an item first.
template <class Rings>
__device__ void prefill_copy_keys(const AttentionPrefillArgs& args, Rings rings) {
  constexpr std::uint32_t bytes = Rings::tile_bytes, k_bytes = bytes + prefill_tile_info;
  for (;;) {
    rings.found.wait_full();
    const PrefillItem& item = Rings::item(rings.found.stage());
    const bool end = item.count == 0;
    const std::uint8_t* k = args.tiles[0] + item.record * k_bytes;
    const std::uint8_t* v = args.tiles[1] + item.record * bytes;
    const int first = item.tile_begin, last = item.tile_end;
    rings.query.release_behind(rings.query.stage(), static_cast<std::uint32_t>(item.record) |
                                                        static_cast<std::uint32_t>(last));
    rings.found.next(), rings.query.next();
    if (end) return;
    const int late = min(first + 2, last - 1);
    if (first >= last && ptx::elect_sync()) ptx::mbarrier_arrive(rings.wanted.full());
#pragma unroll 1
    for (int tile = last - 1; tile >= first; --tile) {
      if (tile == late && ptx::elect_sync()) ptx::mbarrier_arrive(rings.wanted.full());
      rings.k.wait_empty();
      if (ptx::elect_sync()) {
        ptx::mbarrier_arrive_expect_tx(rings.k.full(), k_bytes);
        ptx::cp_async_bulk_shared_cluster_global_mbarrier(
            rings.k_tile(), k + std::int64_t{tile} * k_bytes, k_bytes, rings.k.full());
      }
      __syncwarp();
      rings.k.next();
      rings.v.wait_empty();
      if (ptx::elect_sync()) {
        ptx::mbarrier_arrive_expect_tx(rings.v.full(), bytes);
        ptx::cp_async_bulk_shared_cluster_global_mbarrier(
            rings.v_tile(), v + std::int64_t{tile} * bytes, bytes, rings.v.full());
      }
      __syncwarp();
      rings.v.next();
    }
  }
}

/// Rows of one type; a row is as many lanes as it has pieces of eight elements.
template <class Elements, int Width>
__device__ void prefill_load_rows(const AttentionPrefillArgs& args, const PrefillItem& item,
                                  int warp, unsigned char* to, float* factors) {
  // Rows at once, by the registers there are for them.
  constexpr int words =
      static_cast<int>(sizeof(typename Elements::Raw)) / 4 + (Elements::block > 0);
  constexpr int most = (Width == 256 ? 8 : 32) / words, each = most < 1 ? 1 : most < 8 ? most : 8;
  constexpr int lanes = Width / 8, together = 32 / lanes;
  constexpr int step = query_warps * together;
  const int lane = static_cast<int>(threadIdx.x) % 32, piece = lane % lanes;
  const float global =
      __fmul_rn(args.q.global ? *args.q.global : 1.0f, args.globals[0] ? *args.globals[0] : 1.0f);
  const std::uint32_t sign = ptx::cvt_rn_f16x2_f32(args.sign, args.sign);
#pragma unroll 1
  for (int base = warp * together; base < prefill_rows; base += each * step) {
    typename Elements::Raw raw[each] = {};
    std::uint32_t scales[each] = {};
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int row = base + i * step + lane / lanes;
      if (row >= item.count || 8 * piece >= args.keys.d) continue;
      raw[i] = Elements::load(args.q.codes.data + item.place(args, args.q.codes, row) +
                              piece * Elements::bits);
      if constexpr (Elements::block > 0)
        scales[i] = __ldg(args.q.scales.data + item.place(args, args.q.scales, row) +
                          8 * piece / Elements::block);
    }
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int row = base + i * step + lane / lanes;
      int reference = 0;
      if constexpr (Elements::relative) {
        reference = max(Elements::reference(raw[i], scales[i]), least_reference);
#pragma unroll
        for (int other = 1; other < lanes; other *= 2)
          reference = max(reference, __shfl_xor_sync(~0u, reference, other));
      }
      if (row >= prefill_rows) continue;
      std::uint32_t w[4];
      Elements::halves(raw[i], scales[i], reference, w);
#pragma unroll
      for (std::uint32_t& pair : w) pair = ptx::mul_rn_f16x2(pair, sign);
      *reinterpret_cast<uint4*>(to + prefill_place<prefill_rows>(row, piece)) =
          make_uint4(w[0], w[1], w[2], w[3]);
      if (piece == 0)
        factors[row] = __fmul_rn(
            __fmul_rn(args.scale_log2, power_of_two(Elements::exponent(reference))), global);
    }
  }
}

/// Rows of any type, as FP16.
template <class Rings>
__device__ void prefill_load_rows(const AttentionPrefillArgs& args, const PrefillItem& item,
                                  int warp, unsigned char* to, float* factors) {
  constexpr int width = Rings::width;
  switch (args.q.element) {
    case PrefillElement::f32:
      prefill_load_rows<ElementsF32, width>(args, item, warp, to, factors);
      break;
    case PrefillElement::f16:
      prefill_load_rows<ElementsF16, width>(args, item, warp, to, factors);
      break;
    case PrefillElement::bf16:
      prefill_load_rows<ElementsBf16, width>(args, item, warp, to, factors);
      break;
    case PrefillElement::nvfp4:
      prefill_load_rows<ElementsNvfp4, width>(args, item, warp, to, factors);
      break;
    case PrefillElement::mxfp4:
      prefill_load_rows<ElementsMxfp4, width>(args, item, warp, to, factors);
      break;
    case PrefillElement::mxfp8_e4m3:
      prefill_load_rows<ElementsMxfp8E4m3, width>(args, item, warp, to, factors);
      break;
    case PrefillElement::mxfp8_e5m2:
      prefill_load_rows<ElementsMxfp8E5m2, width>(args, item, warp, to, factors);
      break;
    case PrefillElement::e4m3:
      break;  // of caches alone
  }
}

/// Three warps: items, and by Rows::load their rows of q.
template <class Rows, class Rings>
__device__ void prefill_load_query(const AttentionPrefillArgs& args, Rings rings) {
  const int warp = static_cast<int>(threadIdx.x) / 32 - Rings::readers - 1;
  int next = static_cast<int>(blockIdx.x);
  for (;;) {
    rings.query.wait_empty();
    if (warp == 0 && threadIdx.x % 32 == 0) {
      if (next < 0) {
        rings.wanted.wait_full();
        rings.wanted.next();
        next = static_cast<int>(gridDim.x + atomicAdd(args.counter, 1u));
      }
      PrefillItem item{};
      for (; next < args.items; next = static_cast<int>(gridDim.x + atomicAdd(args.counter, 1u))) {
        item = PrefillItem::find(args, next);
        if (item.count > 0) break;
      }
      next = -1;
      Rings::item(rings.found.stage()) = item;
      ptx::mbarrier_arrive(rings.found.full());
    }
    __syncwarp();
    rings.found.wait_full();
    const PrefillItem item = Rings::item(rings.found.stage());
    unsigned char* const to = Rings::memory() + rings.query.stage() * Rings::query_bytes;
    float* const factors = rings.factors();
    if (item.count > 0) {
      Rows::load(args, item, warp, to, factors);
      ptx::fence_proxy_async_shared();
    }
    ptx::mbarrier_arrive(rings.query.full());
    rings.found.next(), rings.query.next();
    if (item.count == 0) return;
  }
}

}  // namespace microscale::cuda::attention::prefill
