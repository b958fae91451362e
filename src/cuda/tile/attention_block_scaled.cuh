// Attention by block-scaled matrix instructions on sm_120f: q k^T of 4- and 8-bit codes as they
// are; the second product of 4-bit probabilities with V's codes along the tokens, or in FP16 with
// V's codes along d.
//
// Four warps share 64 keys at a time, which cp.async brings some tiles ahead, and each has rows of
// its own. Tiles that some row does not see whole, and all of them under a softcap, go through a
// loop that looks; the others through one that does not.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/tile/attention_block_scaled_keys.cuh"
#include "cuda/tile/attention_block_scaled_values.cuh"
#include "cuda/tile/attention_block_scaled_weights.cuh"
#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/grid_order.cuh"

namespace microscale::cuda::block_attention {

/// How probabilities are multiplied.
enum class Values {
  tokens,     // two-level codes, with V's blocks along the tokens
  two_level,  // two-level codes, widened to FP16 like V, whose blocks run along d
  exact,      // FP16, with V's blocks along d
};

/// QTerms, PTerms: of q and of codes of probabilities. Rows: sixteens of a warp.
template <class Pair, int D_, int QTerms_, Values V_, int PTerms_, int Rows_>
struct Config {
  using Keys = Pair;
  static constexpr int D = D_, QTerms = QTerms_, PTerms = PTerms_, Rows = Rows_;
  static constexpr Values V = V_;
  static constexpr bool along_tokens = V == Values::tokens;
  static_assert(!along_tokens || Rows == 1, "codes of probabilities of a whole tile are kept");
  static constexpr int block_rows = 16 * warps * Rows;
  static_assert(block_rows == block_rows_of(D, along_tokens), "as the host has it");
  static constexpr int eights = along_tokens ? 8 : 4;  // of keys that are scored at a time
  static constexpr float most = V == Values::exact ? 15.0f : log2_2688;
};

template <class C>
class Attention {
  using Keys = typename C::Keys;
  using Shape = KeyShape<Keys, C::D>;
  using Wide = WideValues<C::D>;
  using Token = TokenValues<C::D>;
  static constexpr Shared shared = shared_of(C::D, Shape::row_bytes, C::along_tokens);
  static constexpr int halves = C::eights / 4;

 public:
  __device__ static void run(const Args& args) {
    follow_previous_grid();
    const DecodeItem item(args, static_cast<int>(blockIdx.x), C::block_rows,
                          [&](int s) { return keys_of(args, s); });
    if (item.count == 0) return;
    Attention(args, item).run();
  }

 private:
  __device__ static std::int64_t first_key(const Args& args, std::int64_t s) {
    if (!args.kv_offsets) return s * args.kv_tokens;
    return DecodeItem::clamp(args.kv_offsets[s], 0, args.kv_tokens);
  }
  __device__ static std::int64_t keys_of(const Args& args, std::int64_t s) {
    if (args.lengths) return args.lengths[s];
    return args.kv_offsets ? first_key(args, s + 1) - first_key(args, s) : args.kv_tokens;
  }

  __device__ Attention(const Args& args, const DecodeItem& item)
      : args_(args),
        item_(item),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % 32),
        own_row_(thread_ / 32 * (16 * C::Rows) + lane_ / 4) {}

  __device__ void run() {
    extern __shared__ __align__(256) unsigned char memory[];
    memory_ = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
    const int begin = item_.begin(args_, 0), last = item_.count - 1;
    const int end = max(item_.end(args_, last), begin);
    const int inner_begin = item_.begin(args_, last), inner_end = item_.end(args_, 0);
    first_ = begin / tile_keys;
    count_ = end > begin ? (end + tile_keys - 1) / tile_keys - first_ : 0;
    // Tiles [whole, whole_end) are seen whole by every row.
    const int whole = min(max((inner_begin + tile_keys - 1) / tile_keys - first_, 0), count_);
    const int whole_end =
        args_.softcap_log2 > 0.0f ? whole : min(max(inner_end / tile_keys - first_, whole), count_);
    find_operands();
    load_query();
#pragma unroll 1
    for (int i = 0; i < shared.stages - 1; ++i) fill(i, memory_ + i * shared.stage());
    if (count_ > 0) load_scales_of(0);
    int i = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
      const int stop = pass == 0 ? whole : count_;
#pragma unroll 1
      for (; i < stop; ++i) step<false>(i);
#pragma unroll 1
      for (; i < whole_end; ++i) step<true>(i);
    }
    ptx::cp_async_wait_all();
    store();
  }

  /// Where K and V of the item are.
  __device__ void find_operands() {
    const std::int64_t first = args_.lengths ? 0 : first_key(args_, item_.sequence);
    const std::int64_t page = args_.lengths ? item_.sequence : 0;
    const auto place = [&](const Part& part) {
      return part.data + page * part.page + item_.kv_head * part.head + first * part.token;
    };
    k_ = place(args_.k);
    k_scale_ = place(args_.k_scale);
    if constexpr (C::along_tokens) {
      v_ = args_.value_tiles +
           (item_.kv_head * args_.head_value_tiles + first_value_tile(first, item_.sequence)) *
               ValueTile::bytes(C::D);
    } else {
      v_ = place(args_.v);
      v_scale_ = place(args_.v_scale);
    }
  }

  /// Key `in` of tile `i`, or the last one there is.
  __device__ std::int64_t key(int i, int in) const {
    return min((first_ + i) * tile_keys + in, item_.length - 1);
  }

  __device__ void fill(int i, std::uint32_t to) const {
    if (i < count_) {
      copy_keys<Keys, C::D>(to, thread_, [&](int in) { return k_ + key(i, in) * args_.k.token; });
      const std::uint32_t values = to + shared.key_bytes;
      if constexpr (C::along_tokens)
        Token::copy(values, v_ + static_cast<std::int64_t>(first_ + i) * ValueTile::bytes(C::D),
                    thread_);
      else
        Wide::copy(values, thread_, [&](int in) { return v_ + key(i, in) * args_.v.token; });
    }
    ptx::cp_async_commit_group();
  }

  __device__ void load_scales_of(int i) {
    next_.load(lane_, [&](int in) { return k_scale_ + key(i, in) * args_.k_scale.token; });
    if constexpr (!C::along_tokens)
      Wide::load_scales_of(v_scale_ + key(i, Wide::own_key(thread_)) * args_.v_scale.token, thread_,
                           v_words_);
  }

  __device__ void load_query() {
    const float global =
        __fmul_rn(args_.q_global ? *args_.q_global : 1.0f, args_.k_global ? *args_.k_global : 1.0f);
    const float factor = __fmul_rn(args_.scale_log2, global);
#pragma unroll
    for (int m = 0; m < C::Rows; ++m) {
      std::int64_t row[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int in = min(own_row_ + 16 * m + 8 * e, item_.count - 1);
        row[e] = item_.token(args_, in) * args_.q_heads + item_.head(args_, in);
        const float own = args_.q_factors ? args_.q_factors[row[e]] : 1.0f;
        rows_[m].factor[e] = fmaxf(fabsf(__fmul_rn(factor, own)), 0x1p-126f);
        rows_[m].bias[e] = FLT_MAX;
        rows_[m].sum[e] = 0.0f;
      }
      q_[m].load(args_, row[0], row[1], lane_, factor < 0.0f);
#pragma unroll
      for (int j = 0; j < C::D / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) o_[m][j][e] = 0.0f;
    }
  }

  /// Tile i. Whole: seen whole by every row, and without a softcap.
  template <bool Whole>
  __device__ __forceinline__ void step(int i) {
    ptx::cp_async_wait_group<shared.stages - 2>();
    __syncthreads();  // the tile is there, and the one before it has been read
    const std::uint32_t stage = memory_ + from_, values = stage + shared.key_bytes;
    fill(i + shared.stages - 1,
         memory_ + (from_ == 0 ? (shared.stages - 1) * shared.stage() : from_ - shared.stage()));
    const KeyScales<Keys, C::D> scales = next_;
    if constexpr (C::along_tokens) {
      load_scales_of(i + 1);
      float s[1][8][4];
      scores<Keys, C::D, C::QTerms, 1, 8, 0>(s, q_, scales, stage, key_fragment<Keys, C::D>(lane_));
      if constexpr (!Whole) see(s[0], 0, i, 0);
      Codes<2> p[C::PTerms];
      probabilities(0, s[0], p);
      std::uint32_t block[C::PTerms];
#pragma unroll
      for (int term = 0; term < C::PTerms; ++term) block[term] = block_scales(p[term], lane_);
      Token::multiply(o_[0], p, block, values, lane_);
    } else {
      clear_unseen<Whole>(i);
      const std::uint32_t wide = memory_ + shared.stages * shared.stage();
      Wide::widen(values, wide, thread_, v_words_);
      load_scales_of(i + 1);
      half<Whole, 0>(i, stage, wide, scales);
      half<Whole, 1>(i, stage, wide, scales);
    }
    from_ = from_ == (shared.stages - 1) * shared.stage() ? 0 : from_ + shared.stage();
  }

  /// V's scales of keys that no row sees become 0: whatever they were has no influence.
  template <bool Whole>
  __device__ void clear_unseen(int i) {
    if constexpr (!Whole) {
      const int own = (first_ + i) * tile_keys + Wide::own_key(thread_);
      if (own >= item_.begin(args_, 0) && own < item_.end(args_, item_.count - 1)) return;
#pragma unroll
      for (std::uint32_t& word : v_words_) word = 0;
    }
  }

  /// Half of a tile whose V is widened.
  template <bool Whole, int Half>
  __device__ __forceinline__ void half(int i, std::uint32_t stage, std::uint32_t wide,
                                       const KeyScales<Keys, C::D>& scales) {
    float s[C::Rows][4][4];
    scores<Keys, C::D, C::QTerms, C::Rows, 4, 4 * Half>(s, q_, scales, stage,
                                                        key_fragment<Keys, C::D>(lane_));
    std::uint32_t p[C::Rows][4][2], rest[C::Rows][4][2];
#pragma unroll
    for (int m = 0; m < C::Rows; ++m) {
      if constexpr (!Whole) see(s[m], m, i, Half);
      if constexpr (C::V == Values::exact) {
        float largest[2][1];
        prepare<false>(m, s[m], largest);
        exact(rows_[m], s[m]);
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e)
            p[m][j][e] = ptx::cvt_rn_f16x2_f32(s[m][j][2 * e], s[m][j][2 * e + 1]);
      } else {
        Codes<1> codes[C::PTerms];
        probabilities(m, s[m], codes);
        widen_codes(codes[0], p[m]);
        if constexpr (C::PTerms == 2) widen_codes(codes[1], rest[m]);
      }
    }
    if constexpr (Half == 0) __syncthreads();  // V is widened
    Wide::template multiply<Half, C::Rows>(o_, p, wide, lane_);
    if constexpr (C::PTerms == 2) Wide::template multiply<Half, C::Rows>(o_, rest, wide, lane_);
  }

  __device__ static void widen_codes(const Codes<1>& codes, std::uint32_t (&p)[4][2]) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      std::uint32_t pairs[4];
      const std::uint32_t scale = ptx::cvt_rn_f16x2_e4m3x2(codes.scales[e]);
      ptx::cvt_rn_f16x2_e2m1x2_x4(pairs, codes.codes[0][e]);
#pragma unroll
      for (int j = 0; j < 4; ++j) p[j][e] = ptx::mul_rn_f16x2_by_low(pairs[j], scale);
    }
  }

  /// The largest scores of a lane's eights, of whole blocks if asked for; what is there so far is
  /// multiplied where they ask for it.
  template <bool Blocks, int Eights>
  __device__ __forceinline__ void prepare(int m, const float (&s)[Eights][4],
                                          float (&largest)[2][Eights / 4]) {
#pragma unroll
    for (int e = 0; e < 2; ++e)
#pragma unroll
      for (int h = 0; h < Eights / 4; ++h) {
        largest[e][h] = largest_of(s, h, e);
        if constexpr (Blocks)
          largest[e][h] = fmaxf(largest[e][h], __shfl_xor_sync(~0u, largest[e][h], 1));
      }
    if (!rises(rows_[m], largest, C::most)) return;
    float share[2];
    raise(rows_[m], largest, C::most, share);
#pragma unroll
    for (int j = 0; j < C::D / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) o_[m][j][e] = __fmul_rn(o_[m][j][e], share[e / 2]);
  }

  template <int Eights>
  __device__ __forceinline__ void probabilities(int m, float (&s)[Eights][4],
                                                Codes<Eights / 4> (&p)[C::PTerms]) {
    float largest[2][Eights / 4];
    prepare<true>(m, s, largest);
    two_level<C::PTerms>(rows_[m], s, largest, p);
  }

  /// Softcap and mask, of eights that begin with half `first` of tile i.
  template <int Eights>
  __device__ void see(float (&s)[Eights][4], int m, int i, int first) const {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int in = min(own_row_ + 16 * m + 8 * e, item_.count - 1);
      const int begin = item_.begin(args_, in), end = item_.end(args_, in);
      const float factor = rows_[m].factor[e];
#pragma unroll
      for (int j = 0; j < Eights; ++j)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          float& x = s[j][2 * e + n];
          if (args_.softcap_log2 > 0.0f) {
            const float capped = tanhf(__fdiv_rn(__fmul_rn(x, factor), args_.softcap_log2));
            x = __fdiv_rn(__fmul_rn(capped, args_.softcap_log2), factor);
          }
          const int at =
              (first_ + i) * tile_keys + 32 * (first + j / 4) + 8 * (lane_ % 4) + 2 * (j % 4) + n;
          if (at < begin || at >= end) x = -INFINITY;
        }
    }
  }

  __device__ void store() const {
    const float global = args_.v_global ? *args_.v_global : 1.0f;
#pragma unroll
    for (int m = 0; m < C::Rows; ++m)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float weight = rows_[m].sum[e];
        weight = __fadd_rn(weight, __shfl_xor_sync(~0u, weight, 1));
        weight = __fadd_rn(weight, __shfl_xor_sync(~0u, weight, 2));
        const int row = own_row_ + 16 * m + 8 * e;
        if (row >= item_.count) continue;
        float reference = weight == 0.0f ? decode_no_reference : -rows_[m].bias[e];
        const float share = decode_sink(args_, item_.head(args_, row), reference, weight);
        if (lane_ % 4 == 0) decode_store_log_sum_exp(args_, item_, row, reference, weight);
        const float factor = weight == 0.0f ? 0.0f : __fdiv_rn(__fmul_rn(global, share), weight);
        const std::int64_t at = item_.element(args_, args_.output, row) + 2 * (lane_ % 4);
#pragma unroll
        for (int j = 0; j < C::D / 8; ++j)
          store_pair(args_.output, at + 8 * j,
                     factor == 0.0f ? 0.0f : __fmul_rn(o_[m][j][2 * e], factor),
                     factor == 0.0f ? 0.0f : __fmul_rn(o_[m][j][2 * e + 1], factor));
      }
  }

  /// Two neighbours, the first at an even place.
  __device__ static void store_pair(const DecodeRows& to, std::int64_t at, float x, float y) {
    const auto type = static_cast<DType>(to.type);
    if (type == DType::f32) {
      const auto bits = [](float v) { return __float_as_uint(v == v ? v : canonical_nan()); };
      ptx::st_global_v2(static_cast<float*>(to.data) + at, bits(x), bits(y));
    } else {
      ptx::st_global_b32(
          static_cast<std::uint16_t*>(to.data) + at,
          type == DType::f16 ? ptx::cvt_rn_f16x2_f32(x, y) : ptx::cvt_rn_bf16x2_f32(x, y));
    }
  }

  const Args& args_;
  const DecodeItem& item_;
  const int thread_, lane_, own_row_;
  int first_ = 0, count_ = 0;
  std::uint32_t memory_ = 0, from_ = 0;  // shared memory, and the current stage in it
  const std::uint8_t *k_ = nullptr, *k_scale_ = nullptr, *v_ = nullptr, *v_scale_ = nullptr;
  Query<Keys, C::D, C::QTerms> q_[C::Rows];
  KeyScales<Keys, C::D> next_;
  std::uint32_t v_words_[Wide::scale_words];
  RowState rows_[C::Rows];
  float o_[C::Rows][C::D / 8][4];
};

}  // namespace microscale::cuda::block_attention

#define MICROSCALE_BLOCK_ATTENTION_ENTRY(name, blocks, ...)                                        \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::block_attention::threads, blocks) \
      attention_block_scaled_##name(                                                               \
          const __grid_constant__ microscale::cuda::block_attention::Args args) {                  \
    using namespace microscale::cuda::block_attention;                                             \
    Attention<Config<__VA_ARGS__>>::run(args);                                                     \
  }
