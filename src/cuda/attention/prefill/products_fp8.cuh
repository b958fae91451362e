// Scores and sums of kernel.cuh in FP8, of MXFP4 as E5M2 (expand_fp8.cuh) and
// probabilities as E4M3, up to 448.
//
// The tensor cores keep 13 bits behind the leading one of a sum, so a tile's sums are taken out,
// multiplied by V's power of two and added in FP32: half of the columns at a time, which is what
// registers hold. The next tile's scores are under way meanwhile.
#pragma once

#include <cstdint>

#include "cuda/attention/prefill/expand_fp8.cuh"
#include "cuda/attention/prefill/turns.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace microscale::cuda::attention::prefill {

/// A row's largest probability is between 2^8 and 2^8.75, below 448.
struct Fp8Probabilities {
  static constexpr float headroom = 8.0f, most = 8.75f;
  static constexpr bool shifted = false;
};

/// Rows of MXFP4 as E5M2, each relative to its largest scale; a lane has 16 elements.
__device__ inline void prefill_load_rows_fp8(const AttentionPrefillArgs& args,
                                             const PrefillItem& item, int warp, unsigned char* to,
                                             float* factors) {
  constexpr int lanes = 8, together = 32 / lanes, each = 4, step = query_warps * together;
  const int lane = static_cast<int>(threadIdx.x) % 32, piece = lane % lanes;
  const std::uint32_t sign = args.sign < 0.0f ? 0x80808080u : 0u;
#pragma unroll 1
  for (int base = warp * together; base < prefill_rows; base += each * step) {
    uint2 codes[each] = {};
    std::uint32_t scales[each] = {};
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int row = base + i * step + lane / lanes;
      if (row >= item.count || 16 * piece >= args.keys.d) continue;
      codes[i] =
          ptx::ld_global_nc_v2(args.q.codes.data + item.place(args, args.q.codes, row) + 8 * piece);
      scales[i] = __ldg(args.q.scales.data + item.place(args, args.q.scales, row) + piece / 2);
    }
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int row = base + i * step + lane / lanes;
      int reference = max(ElementsMxfp4::reference(codes[i], scales[i]), least_reference);
#pragma unroll
      for (int other = 1; other < lanes; other *= 2)
        reference = max(reference, __shfl_xor_sync(~0u, reference, other));
      if (row >= prefill_rows) continue;
      const E5m2Table table = e5m2_table_of(scales[i], reference);
      const uint2 low = e5m2_of_e2m1(codes[i].x, table), high = e5m2_of_e2m1(codes[i].y, table);
      *reinterpret_cast<uint4*>(to + fp8_place(row, piece)) =
          make_uint4(low.x ^ sign, low.y ^ sign, high.x ^ sign, high.y ^ sign);
      if (piece == 0)
        factors[row] = __fmul_rn(args.scale_log2, power_of_two(e5m2_exponent(reference)));
    }
  }
}

template <bool Softcap>
class Fp8Products
    : public PrefillPart<PrefillRings<128, 1>, PrefillRowPair<128, Softcap, Fp8Probabilities>> {
  using Part = PrefillPart<PrefillRings<128, 1>, PrefillRowPair<128, Softcap, Fp8Probabilities>>;

 public:
  using Part::keys, Part::turns;
  using typename Part::Rings;
  static constexpr int width = 128, registers = 216, copy_registers = 72;

  using Part::Part;
  __device__ static void load(const AttentionPrefillArgs& args, const PrefillItem& item, int warp,
                              unsigned char* to, float* factors) {
    prefill_load_rows_fp8(args, item, warp, to, factors);
  }
  __device__ const float (&o() const)[width / 2] { return o_; }

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
    multiply_values<0>();
    ptx::wgmma_wait_group<0>();
    add<0>();
    multiply_values<1>();
    ptx::wgmma_wait_group<0>();
    add<1>();
    release(rings_.v);
  }

 private:
  using Part::rings_, Part::rows_, Part::args_, Part::group_;
  using Part::tile_info, Part::is_inner, Part::release, Part::end_of_exponentials;

  __device__ void take_first(int tile) {
    const PrefillTile info = tile_info();
    const bool inner = is_inner(tile);
    release(rings_.k);
    values_by_ = power_of_two(info.v_exponent);
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
    multiply_values<0>();
    multiply_keys();
    ptx::wgmma_wait_group<1>();
    add<0>();
    multiply_values<1>();
    turns().pass();
    ptx::wgmma_wait_group<1>();
    ptx::keep_in_place(s_);
    release(rings_.k);
    rows_.template take<Masked>(args_, info, tile * keys, s_);
    end_of_exponentials();
    ptx::wgmma_wait_group<0>();
    ptx::keep_in_place(s_);
    add<1>();
    release(rings_.v);
    values_by_ = power_of_two(info.v_exponent);
    if (__any_sync(~0u, rows_.sums_by[0] != 1.0f || rows_.sums_by[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < width / 2; ++i) o_[i] = __fmul_rn(o_[i], rows_.sums_by[i / 2 % 2]);
    }
    round_probabilities();
  }

  __device__ void multiply_keys() {
    const std::uint64_t q =
        ptx::matrix_descriptor_rows128(rings_.query_rows() + group_ * (64 * 128));
    const std::uint64_t k = ptx::matrix_descriptor_rows128(rings_.k_tile());
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < width / 32; ++i)
      ptx::wgmma_m64n128k32_f32_e5m2_e5m2(s_, ptx::advance(q, 32 * i), ptx::advance(k, 32 * i),
                                          i > 0);
    ptx::wgmma_commit_group();
  }

  /// Columns [64 Half, 64 Half + 64) of the sums of a tile.
  template <int Half>
  __device__ void multiply_values() {
    const std::uint64_t v =
        ptx::matrix_descriptor_rows128(rings_.v_tile() + Half * (width / 2 * keys));
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < keys / 32; ++i) {
      const std::uint32_t a[4] = {p_[4 * i], p_[4 * i + 1], p_[4 * i + 2], p_[4 * i + 3]};
      ptx::wgmma_m64n64k32_f32_e4m3_e5m2(t_, a, ptx::advance(v, 32 * i), i > 0);
    }
    ptx::wgmma_commit_group();
  }
  template <int Half>
  __device__ void add() {
    ptx::keep_in_place(t_);
#pragma unroll
    for (int i = 0; i < width / 4; ++i)
      o_[Half * (width / 4) + i] = __fmaf_rn(t_[i], values_by_, o_[Half * (width / 4) + i]);
  }

  /// Of each 32 keys register r has row half r % 2, keys of the eights 2 (r / 2) and the next one:
  /// fp8_key_place.
  __device__ void round_probabilities() {
    static_assert(keys_are_in_order());
#pragma unroll
    for (int i = 0; i < keys / 8; ++i) {
      const int at = i / 4 * 16 + i % 4 / 2 * 8 + i % 2 * 2;
      p_[i] = ptx::cvt_rn_satfinite_e4m3x2_f32(s_[at], s_[at + 1]) |
              ptx::cvt_rn_satfinite_e4m3x2_f32(s_[at + 4], s_[at + 5]) << 16;
    }
    ptx::keep_in_place(p_);
  }

  /// Whether byte j of register i of lane t, which the product takes as key 16 (i % 4 / 2) + 4 t +
  /// j of its 32, is the probability of the key whose value fp8_key_place puts there.
  static constexpr bool keys_are_in_order() {
    for (int i = 0; i < 4; ++i)
      for (int t = 0; t < 4; ++t)
        for (int j = 0; j < 4; ++j) {
          const int score = i / 2 * 8 + j / 2 * 4 + j % 2, key = score / 4 * 8 + 2 * t + score % 2;
          if (fp8_key_place(key) != i / 2 * 16 + 4 * t + j) return false;
        }
    return true;
  }

  float s_[keys / 2], t_[width / 4], o_[width / 2];
  float values_by_;  // of the probabilities' tile
  std::uint32_t p_[keys / 8];
};

}  // namespace microscale::cuda::attention::prefill
