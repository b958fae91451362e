// Attention of many queries on Hopper, at the speed of its matrix products: keys and values as FP16
// tiles (attention_expand.cuh), both products by wgmma.
//
// A block stays on its multiprocessor and takes item after item: 128 rows of q against the keys
// that they see, tile by tile from the last one. A warpgroup brings what is needed
// (attention_prefill_query.cuh). Two warpgroups have 64 rows each: scores S = Q K^T, both from
// shared memory; probabilities in registers; O += P V with P as the first operand, in the order in
// which wgmma has left it. The products of the next scores and of the last probabilities are issued
// together, and a warpgroup turns scores into probabilities while the other one's products run:
// they take turns at issuing.
#pragma once

#include <cstdint>

#include "cuda/attention_prefill_args.hpp"
#include "cuda/ptx/barrier.cuh"
#include "cuda/ptx/matrix_descriptor.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/setmaxnreg.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/ptx/wgmma_f16.cuh"
#include "cuda/tile/attention_prefill_query.cuh"
#include "cuda/tile/attention_prefill_rows.cuh"
#include "cuda/tile/attention_prefill_store.cuh"
#include "cuda/tile/grid_order.cuh"

namespace microscale::cuda {

template <int Width, bool Softcap>
class AttentionPrefill {
 public:
  using Rings = PrefillRings<Width>;
  static constexpr PrefillShared shared = Rings::shared;
  static constexpr int keys = Rings::keys;

  __device__ static void run(const AttentionPrefillArgs& args) {
    std::uint32_t address[1] = {
        static_cast<std::uint32_t>(__cvta_generic_to_shared(Rings::memory()))};
    ptx::keep_in_place(address);
    Rings rings(address[0]);
    if (threadIdx.x == 0) rings.init();
    __syncthreads();
    follow_previous_grid();
    if (threadIdx.x >= 256) {
      ptx::setmaxnreg_dec<Width == 256 ? 72 : 88>();
      if (threadIdx.x < 288)
        prefill_copy_keys<Width>(args, rings);
      else
        prefill_load_query<Width>(args, rings);
    } else {
      ptx::setmaxnreg_inc<Width == 256 ? 216 : 208>();
      AttentionPrefill(args, rings).attend();
    }
  }

 private:
  using Rows = PrefillRowPair<keys, Softcap>;

  __device__ AttentionPrefill(const AttentionPrefillArgs& args, const Rings& rings)
      : args_(args),
        rings_(rings),
        group_(__shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0)),
        row_(static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4) {}

  /// Both warpgroups have as many turns.
  __device__ void wait_turn() const { ptx::bar_sync(1 + group_, 256); }
  __device__ void pass_turn() const { ptx::bar_arrive(2 - group_, 256); }

  __device__ void attend() {
    if (group_ == 1) pass_turn();
#pragma unroll 1
    for (;;) {
      rings_.query.wait_full();
      const PrefillItem& item = Rings::item(rings_.query.stage());
      if (item.count == 0) break;
      rows_.start(args_, item, row_, rings_.factors());
      const int last = min(group_ * 64 + 63, item.count - 1);
      inner_begin_ = item.begin(args_, last);
      inner_end_ = item.end(args_, min(group_ * 64, item.count - 1));
      attend_to(item.tile_begin, item.tile_end);
      float by[2] = {};
      rows_.finish(args_, item, row_, by);
      store_prefill_rows<Width>(args_, item, row_, rows_.weight, by, o_);
      rings_.query.release(rings_.query.stage(), true);
      rings_.query.next();
    }
    if (group_ == 0) wait_turn();  // the other one's last
  }

  __device__ void attend_to(int begin, int end) {
#pragma unroll
    for (float& x : o_) x = 0.0f;
    if (begin >= end) return;
    int tile = end - 1;
    rings_.k.wait_full();
    wait_turn();
    multiply_keys();
    pass_turn();
    ptx::wgmma_wait_group<0>();
    ptx::keep_in_place(s_);
    take_first(tile);
    round_probabilities();
#pragma unroll 1
    for (--tile; tile >= begin; --tile) {
      rings_.v.wait_full();
      rings_.k.wait_full();
      if (is_inner(tile))
        step<false>(tile);
      else
        step<true>(tile);
    }
    rings_.v.wait_full();
    multiply_values();
    ptx::wgmma_wait_group<0>();
    ptx::keep_in_place(o_);
    release(rings_.v);
  }

  __device__ PrefillTile tile_info() const {
    const std::uint32_t at = rings_.k_tile() + Rings::tile_bytes;
    const uint4 a = ptx::ld_shared_v4(at), b = ptx::ld_shared_v4(at + 16);
    return {static_cast<std::int32_t>(a.x),
            static_cast<std::int32_t>(a.y),
            static_cast<std::int32_t>(a.z),
            0,
            {b.x, b.y, b.z, b.w}};
  }
  __device__ bool is_inner(int tile) const {
    const std::uint32_t whole = ptx::ld_shared_b32(rings_.k_tile() + Rings::tile_bytes + 8);
    return whole != 0 && tile * keys >= inner_begin_ && (tile + 1) * keys <= inner_end_;
  }
  template <class Ring>
  __device__ static void release(Ring& ring) {
    ring.release(ring.stage(), true);
    ring.next();
  }

  __device__ void take_first(int tile) {
    const PrefillTile info = tile_info();
    const bool inner = is_inner(tile);
    release(rings_.k);
    if (inner)
      rows_.template take<false>(args_, info, tile * keys, s_);
    else
      rows_.template take<true>(args_, info, tile * keys, s_);
  }

  /// Scores of a tile, while probabilities of the one before meet their values.
  template <bool Masked>
  __device__ void step(int tile) {
    const PrefillTile info = tile_info();
    wait_turn();
    multiply_keys();
    multiply_values();
    pass_turn();
    ptx::wgmma_wait_group<1>();
    ptx::keep_in_place(s_);
    release(rings_.k);
    rows_.template take<Masked>(args_, info, tile * keys, s_);
    end_of_exponentials();
    ptx::wgmma_wait_group<0>();
    ptx::keep_in_place(o_);
    ptx::keep_in_place(s_);
    release(rings_.v);
    if (__any_sync(~0u, rows_.sums_by[0] != 1.0f || rows_.sums_by[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < Width / 2; ++i) o_[i] = __fmul_rn(o_[i], rows_.sums_by[i / 2 % 2]);
    }
    round_probabilities();
  }

  /// Stores what nobody reads, but what depends on all exponentials: the assembler leaves it in
  /// front of the wait behind it, and would move that in front of them, where they had to wait for
  /// the products that they shall run beside.
  __device__ void end_of_exponentials() const {
    ptx::st_shared_f32(rings_.base + shared.marks + threadIdx.x * 4,
                       __fadd_rn(rows_.weight[0], rows_.weight[1]));
  }

  __device__ void multiply_keys() {
    const std::uint64_t q =
        ptx::matrix_descriptor_rows128(rings_.query_rows() + group_ * (64 * 128));
    const std::uint64_t k = ptx::matrix_descriptor_rows128(rings_.k_tile());
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < Width / 16; ++i) {
      const std::uint64_t a = ptx::advance(q, i / 4 * (prefill_rows * 128) + i % 4 * 32),
                          b = ptx::advance(k, i / 4 * (keys * 128) + i % 4 * 32);
      if constexpr (keys == 128)
        ptx::wgmma_m64n128k16_f32_f16_f16(s_, a, b, i > 0);
      else
        ptx::wgmma_m64n64k16_f32_f16_f16(s_, a, b, i > 0);
    }
    ptx::wgmma_commit_group();
  }

  __device__ void multiply_values() {
    // A row of V lies across K: chunks of 64 elements one tile's rows apart, eight keys 1024 bytes.
    const std::uint64_t v =
        ptx::matrix_descriptor(rings_.v_tile(), keys * 128, 1024, ptx::MatrixSwizzle::bytes128);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < keys / 16; ++i) {
      const std::uint32_t a[4] = {p_[4 * i], p_[4 * i + 1], p_[4 * i + 2], p_[4 * i + 3]};
      const std::uint64_t b = ptx::advance(v, i * 2048);
      if constexpr (Width == 64) ptx::wgmma_m64n64k16_f32_f16_f16_transposed(o_, a, b, true);
      if constexpr (Width == 128) ptx::wgmma_m64n128k16_f32_f16_f16_transposed(o_, a, b, true);
      if constexpr (Width == 256) ptx::wgmma_m64n256k16_f32_f16_f16_transposed(o_, a, b, true);
    }
    ptx::wgmma_commit_group();
  }

  /// Scores 2 i and 2 i + 1 are neighbours along the keys, as the first operand wants them.
  __device__ void round_probabilities() {
#pragma unroll
    for (int i = 0; i < keys / 4; ++i) p_[i] = ptx::cvt_rn_f16x2_f32(s_[2 * i], s_[2 * i + 1]);
    ptx::keep_in_place(p_);
  }

  const AttentionPrefillArgs& args_;
  Rings rings_;
  const int group_, row_;
  int inner_begin_, inner_end_;  // keys that all rows of the warpgroup see
  Rows rows_;
  float s_[keys / 2], o_[Width / 2];
  std::uint32_t p_[keys / 4];
};

}  // namespace microscale::cuda

#define MICROSCALE_ATTENTION_PREFILL_ENTRY(name, width, softcap)                     \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::prefill_threads, 1) \
      name(const __grid_constant__ microscale::cuda::AttentionPrefillArgs args) {    \
    microscale::cuda::AttentionPrefill<width, softcap>::run(args);                   \
  }
