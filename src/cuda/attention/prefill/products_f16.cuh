// Scores and sums of kernel.cuh in FP16, both products by wgmma: S = Q K^T from shared
// memory; probabilities in registers; O += P V with P as the first operand, in the order in which
// wgmma has left it. The products of the next scores and of the last probabilities are issued
// together.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/attention/prefill/turns.cuh"

namespace microscale::cuda::attention::prefill {

template <int Width, bool Softcap>
class F16Products
    : public PrefillPart<PrefillRings<Width, 2>,
                         PrefillRowPair<prefill_keys(Width), Softcap, F16Probabilities>> {
  using Part = PrefillPart<PrefillRings<Width, 2>,
                           PrefillRowPair<prefill_keys(Width), Softcap, F16Probabilities>>;

 public:
  using Part::keys, Part::turns;
  using typename Part::Rings;
  static constexpr int registers = Width == 256 ? 216 : 208;
  static constexpr int copy_registers = Width == 256 ? 72 : 88;

  using Part::Part;
  __device__ static void load(const AttentionPrefillArgs& args, const PrefillItem& item, int warp,
                              unsigned char* to, float* factors) {
    prefill_load_rows<Rings>(args, item, warp, to, factors);
  }
  __device__ const float (&o() const)[Width / 2] { return o_; }

  __device__ void attend(int begin, int end) {
#pragma unroll
    for (float& x : o_) x = 0.0f;
    if (begin >= end) return;
    int tile = end - 1;
    rings_.k.wait_full();
    turns().wait();
    multiply_keys();
    turns().pass();
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

 private:
  using Part::rings_, Part::rows_, Part::args_, Part::group_;
  using Part::tile_info, Part::is_inner, Part::release, Part::end_of_exponentials;

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
    turns().wait();
    multiply_keys();
    multiply_values();
    turns().pass();
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

  float s_[keys / 2], o_[Width / 2];
  std::uint32_t p_[keys / 4];
};

}  // namespace microscale::cuda::attention::prefill
