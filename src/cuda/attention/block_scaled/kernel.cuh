// Attention by block-scaled matrix instructions on sm_120f: q k^T of 4- and 8-bit codes as they
// are; the second product of 4-bit probabilities with V's codes along the tokens, or in FP16 with
// V's codes along d.
//
// Warps of a block share 64 keys at a time, which cp.async brings some tiles ahead, and each has
// rows of its own. Tiles that some row does not see whole, and all of them under a softcap, go
// through a loop that looks; the others through one that does not.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/attention/block_scaled/keys.cuh"
#include "cuda/attention/block_scaled/operands.cuh"
#include "cuda/attention/block_scaled/store.cuh"
#include "cuda/attention/block_scaled/values.cuh"
#include "cuda/attention/block_scaled/weights.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/block/grid_order.cuh"

namespace microscale::cuda::attention::block_scaled {

/// How probabilities are multiplied.
enum class Values {
  tokens,     // two-level codes, with V's blocks along the tokens
  two_level,  // two-level codes, converted to FP16 as V is, whose blocks run along d
  exact,      // FP16, with V's blocks along d
};

/// QTerms, PTerms: of q and of codes of probabilities. Rows: sixteens of a warp. Paged: K and V are
/// in pages that a table names.
template <class Pair, int D_, int QTerms_, Values V_, int PTerms_, int Rows_, bool Paged_ = false>
struct Config {
  using Keys = Pair;
  static constexpr int D = D_, QTerms = QTerms_, PTerms = PTerms_, Rows = Rows_;
  static constexpr Values V = V_;
  static constexpr bool along_tokens = V == Values::tokens, Paged = Paged_;
  static_assert(!Paged || !along_tokens, "V's blocks run along d in a cache");
  static_assert(!along_tokens || Rows == 1, "codes of probabilities of a whole tile are kept");
  static constexpr int threads = threads_of(D, along_tokens), block_rows = threads / 2 * Rows;
  static_assert(block_rows == block_rows_of(D, QTerms, along_tokens), "as the host has it");
  static constexpr int eights = along_tokens ? 8 : 4;  // of keys that are scored at a time
  static constexpr float most = V == Values::exact ? 15.0f : log2_2688;
};

template <class C>
class Attention {
  using Keys = typename C::Keys;
  using Shape = KeyShape<Keys, C::D>;
  using F16 = F16Values<C::D, C::threads>;
  using Token = TokenValues<C::D, C::threads>;
  static constexpr Shared shared =
      shared_of(C::D, Shape::row_bytes, Shape::words, C::QTerms, C::along_tokens);
  /// Where registers have no room for the next tile's scales beside probabilities.
  static constexpr bool late_scales = C::D == 256;
  using Operands = KeyOperands<C>;
  using OwnQuery = Query<Keys, C::D, C::QTerms>;
  static constexpr int halves = C::eights / 4;
  static_assert(C::threads == 128 || late_scales, "warps without rows load scales, too");
  static_assert(C::threads / 32 * C::Rows * OwnQuery::bytes == shared.query_bytes,
                "as the host has it");

 public:
  __device__ static void run(const Args& args) {
    follow_previous_grid();
    const int number = args.by_splits.divide(static_cast<int>(blockIdx.x));
    const DecodeItem item(args, number, C::block_rows,
                          [&](int s) { return Operands::keys_of(args, s); });
    if (item.count == 0) return;
    Attention attention(args, item);
    attention.attend();
    attention.store(
        DecodeItem(args, number, C::block_rows, [](int) { return 0; }));  // nothing of keys
  }

 private:
  __device__ Attention(const Args& args, const DecodeItem& item)
      : args_(args),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % 32),
        operands_(args, item) {
    extern __shared__ __align__(256) unsigned char memory[];
    query_ = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
    memory_ = query_ + shared.query_bytes + shared.seen_bytes;
    const int last = item.count - 1;
    if constexpr (C::threads > 128) has_rows_ = __any_sync(~0u, own_row() - lane_ / 4 <= last);
    if (thread_ < C::block_rows) {
      const int row = min(thread_, last);
      ptx::st_shared_v2(seen_at(thread_), static_cast<std::uint32_t>(item.begin(args, row)),
                        static_cast<std::uint32_t>(item.end(args, row)));
    }
    const int begin = item.begin(args, 0), end = max(item.end(args, last), begin);
    first_ = begin / tile_keys;
    count_ = end > begin ? (end + tile_keys - 1) / tile_keys - first_ : 0;
    const int inner = (item.begin(args, last) + tile_keys - 1) / tile_keys - first_;
    whole_ = min(max(inner, 0), count_);
    whole_end_ = args.softcap_log2 > 0.0f
                     ? whole_
                     : min(max(item.end(args, 0) / tile_keys - first_, whole_), count_);
    if (args.splits > 1) take_part(static_cast<int>(blockIdx.x) - item.index * args.splits);
    if constexpr (C::Paged)
      if (operands_.lacks_pages(max(begin, first_ * tile_keys),
                                min(end, (first_ + count_) * tile_keys), thread_))
        whole_end_ = whole_;  // through the loop that looks
    load_query(item);
  }

  /// Of all tiles part `part`.
  __device__ void take_part(int part) {
    const auto share = [&](int n) {
      return static_cast<int>(static_cast<std::int64_t>(count_) * n / args_.splits);
    };
    const int from = share(part), to = share(part + 1);
    whole_ = min(max(whole_ - from, 0), to - from);
    whole_end_ = min(max(whole_end_ - from, whole_), to - from);
    first_ += from;
    count_ = to - from;
  }

  __device__ int own_row() const {
    const int lane = C::along_tokens ? thread_ % 32 : lane_;  // spills, the other way round
    return thread_ / 32 * (16 * C::Rows) + lane / 4;
  }
  __device__ std::uint32_t seen_at(int row) const {
    return query_ + shared.query_bytes + 8 * static_cast<std::uint32_t>(row);
  }

  __device__ void attend() {
#pragma unroll 1
    for (int i = 0; i < shared.stages - 1; ++i) fill(i, memory_ + i * shared.stage());
    fill_values(0);
    if (count_ > 0) load_scales_of(0);
    int i = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
      const int stop = pass == 0 ? whole_ : count_;
#pragma unroll 1
      for (; i < stop; ++i) step<false>(i);
#pragma unroll 1
      for (; i < whole_end_; ++i) step<true>(i);
    }
    ptx::cp_async_wait_all();
  }

  /// Key `in` of tile i, or the last one there is.
  __device__ int key(int i, int in) const {
    return operands_.within((first_ + i) * tile_keys + in);
  }
  /// Tile i, but for V's codes where they have one place.
  __device__ void fill(int i, std::uint32_t to) const {
    if (i < count_) {
      copy_keys<Keys, C::D, C::threads>(to, thread_,
                                        [&](int in) { return operands_.k(key(i, in)); });
      if constexpr (C::along_tokens)
        Token::copy(to + shared.key_bytes, operands_.value_tile(first_ + i), thread_);
      else if constexpr (!shared.one_value_tile)
        copy_values(i, to + shared.key_bytes);
    }
    ptx::cp_async_commit_group();
  }
  __device__ void copy_values(int i, std::uint32_t to) const {
    F16::copy(to, thread_, [&](int in) { return operands_.v(key(i, in)); });
  }
  /// V's codes of tile i where they have one place, which no warp reads any more.
  __device__ void fill_values(int i) const {
    if constexpr (shared.one_value_tile) {
      if (i < count_) copy_values(i, memory_ + shared.stages * shared.stage());
      ptx::cp_async_commit_group();
    }
  }

  __device__ void load_scales_of(int i) {
    scales_.load(lane_, [&](int in) { return operands_.k_scale(key(i, in)); });
    if constexpr (C::Paged)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (operands_.has(key(i, scales_.key(lane_, half)))) continue;
#pragma unroll
        for (std::uint32_t& word : scales_.words[half]) word = 0;  // page 0's may be no scales
      }
    if constexpr (!C::along_tokens)
      F16::load_scales_of(operands_.v_scale(key(i, F16::own_key(thread_))), thread_, v_words_);
  }

  __device__ void load_query(const DecodeItem& item) {
    const float global =
        __fmul_rn(args_.q_global ? *args_.q_global : 1.0f, args_.k_global ? *args_.k_global : 1.0f);
    const float factor = __fmul_rn(args_.scale_log2, global);
#pragma unroll
    for (int m = 0; m < C::Rows; ++m) {
      std::int64_t row[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int in = min(own_row() + 16 * m + 8 * e, item.count - 1);
        row[e] = item.token(args_, in) * args_.q_heads + item.head(args_, in);
        const float own = args_.q_factors ? args_.q_factors[row[e]] : 1.0f;
        const float product = fabsf(__fmul_rn(factor, own));
        rows_[m].factor[e] = product < 0x1p-126f ? 0x1p-126f : product;  // a mask times 0 is NaN
        rows_[m].bias[e] = FLT_MAX;
        rows_[m].sum[e] = 0.0f;
      }
      q_[m].load(args_, row[0], row[1], lane_, factor < 0.0f,
                 query_ + (thread_ / 32 * C::Rows + m) * OwnQuery::bytes);
#pragma unroll
      for (int j = 0; j < C::D / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) o_[m][j][e] = 0.0f;
    }
  }

  /// Tile i. Whole: seen whole by every row, and without a softcap.
  template <bool Whole>
  __device__ __forceinline__ void step(int i) {
    static_assert(!shared.one_value_tile || shared.stages == 2,
                  "V's last group is waited for, too");
    ptx::cp_async_wait_group<shared.stages - 2>();
    __syncthreads();  // the tile is there, and the one before it has been read
    const std::uint32_t stage = memory_ + from_,
                        values = shared.one_value_tile ? memory_ + shared.stages * shared.stage()
                                                       : stage + shared.key_bytes;
    fill(i + shared.stages - 1,
         memory_ + (from_ == 0 ? (shared.stages - 1) * shared.stage() : from_ - shared.stage()));
    if constexpr (C::along_tokens) {
      if (works()) attend_tokens<Whole>(i, stage, values);
    } else {
      clear_unseen<Whole>(i);
      const std::uint32_t f16 = memory_ + shared.f16();
      F16::to_f16(values, f16, thread_, v_words_);
      constexpr bool apart = C::Paged && C::QTerms == 2;  // or ptxas is short of registers
      Weights p[1 + apart];
      if (works()) find<Whole, 0>(i, stage, p[0]);
      __syncthreads();  // V is FP16
      fill_values(i + 1);
      if (works()) multiply<0>(p[0], f16);
      if (works()) {  // not one with the line above: ptxas would spill
        find<Whole, 1>(i, stage, p[apart]);
        multiply<1>(p[apart], f16);
      }
      if constexpr (late_scales) load_scales_of(i + 1);
    }
    from_ = from_ == (shared.stages - 1) * shared.stage() ? 0 : from_ + shared.stage();
  }

  /// Whether this warp has rows, or copies and converts for others only. With four, each has a
  /// tensor core of its own, and what the others do is no loss.
  __device__ bool works() const { return has_rows_; }

  /// V's scales of keys that no row sees become 0: whatever they were has no influence.
  template <bool Whole>
  __device__ void clear_unseen(int i) {
    if constexpr (!Whole) {
      const int own = (first_ + i) * tile_keys + F16::own_key(thread_);
      const auto begin = static_cast<int>(ptx::ld_shared_b32(seen_at(0))),
                 end = static_cast<int>(ptx::ld_shared_b32(seen_at(C::block_rows - 1) + 4));
      if (own >= begin && own < end && operands_.has(own)) return;
#pragma unroll
      for (std::uint32_t& word : v_words_) word = 0;
    }
  }

  /// Tile i, whose V has its blocks along the tokens.
  template <bool Whole>
  __device__ __forceinline__ void attend_tokens(int i, std::uint32_t stage, std::uint32_t values) {
    float s[1][8][4], largest[1][2][2];
    scores<Keys, C::D, C::QTerms, 1, 8, 0>(s, q_, scales_, stage, key_fragment<Keys, C::D>(lane_),
                                           lane_);
    load_scales_of(i + 1);
    if constexpr (!Whole) see(s, i, 0);
    prepare(s, largest);
    Codes<2> p[C::PTerms];
    two_level<C::PTerms>(rows_[0], s[0], largest[0], p);
    std::uint32_t block[C::PTerms];
#pragma unroll
    for (int term = 0; term < C::PTerms; ++term) block[term] = block_scales(p[term], lane_);
    Token::multiply(o_[0], p, block, values, lane_);
  }

  /// Of half a tile: scores, which become probabilities when they are multiplied, or codes of them.
  struct Weights {
    float s[C::Rows][4][4];
    Codes<1> codes[C::Rows][C::PTerms];
  };
  template <bool Whole, int Half>
  __device__ __forceinline__ void find(int i, std::uint32_t stage, Weights& p) {
    scores<Keys, C::D, C::QTerms, C::Rows, 4, 4 * Half>(p.s, q_, scales_, stage,
                                                        key_fragment<Keys, C::D>(lane_), lane_);
    if constexpr (Half == 1 && !late_scales) load_scales_of(i + 1);
    if constexpr (!Whole) see(p.s, i, Half);
    float largest[C::Rows][2][1];
    prepare(p.s, largest);
    if constexpr (C::V != Values::exact)
#pragma unroll
      for (int m = 0; m < C::Rows; ++m)
        two_level<C::PTerms>(rows_[m], p.s[m], largest[m], p.codes[m]);
  }
  /// By V in FP16.
  template <int Half>
  __device__ __forceinline__ void multiply(const Weights& weights, std::uint32_t f16) {
    for_each_index<2>([&](auto step) {
      for_each_index<C::PTerms>([&](auto term) {
        std::uint32_t p[C::Rows][4];
#pragma unroll
        for (int m = 0; m < C::Rows; ++m)
          if constexpr (C::V == Values::exact)
            exact<2 * step.value>(rows_[m], weights.s[m], p[m]);
          else
            codes_to_f16<2 * step.value>(weights.codes[m][term.value], p[m]);
        F16::template multiply<2 * Half + step.value, C::Rows>(o_, p, f16, lane_);
      });
    });
  }

  /// The largest scores of a lane's eights, of whole blocks where probabilities have them; what is
  /// there so far is multiplied where they ask for it.
  template <int Eights>
  __device__ __forceinline__ void prepare(const float (&s)[C::Rows][Eights][4],
                                          float (&largest)[C::Rows][2][Eights / 4]) {
    bool above = false;
#pragma unroll
    for (int m = 0; m < C::Rows; ++m) {
#pragma unroll
      for (int e = 0; e < 2; ++e)
#pragma unroll
        for (int h = 0; h < Eights / 4; ++h) {
          float& most = largest[m][e][h];
          most = largest_of(s[m], h, e);
          if constexpr (C::V != Values::exact) most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        }
      above = above || rises(rows_[m], largest[m], C::most);
    }
    if (!__any_sync(~0u, above)) return;
#pragma unroll
    for (int m = 0; m < C::Rows; ++m) {
      float share[2];
      raise(rows_[m], largest[m], C::most, share);
#pragma unroll
      for (int j = 0; j < C::D / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) o_[m][j][e] = __fmul_rn(o_[m][j][e], share[e / 2]);
    }
  }

  /// Softcap and mask, of eights that begin with half `first` of tile i.
  template <int Eights>
  __device__ void see(float (&s)[C::Rows][Eights][4], int i, int first) const {
    bool absent[Eights / 4] = {};
    if constexpr (C::Paged) {
      absent[0] = !operands_.has(key(i, 32 * first + 8 * (lane_ % 4)));  // eight are of one page
    }
#pragma unroll
    for (int m = 0; m < C::Rows; ++m)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const uint2 seen = ptx::ld_shared_v2(seen_at(own_row() + 16 * m + 8 * e));
        const int begin = static_cast<int>(seen.x), end = static_cast<int>(seen.y);
        const float factor = rows_[m].factor[e];
#pragma unroll
        for (int j = 0; j < Eights; ++j)
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            float& x = s[m][j][2 * e + n];
            if (args_.softcap_log2 > 0.0f) {
              const float capped = tanhf(__fdiv_rn(__fmul_rn(x, factor), args_.softcap_log2));
              x = __fdiv_rn(__fmul_rn(capped, args_.softcap_log2), factor);
            }
            const int at =
                (first_ + i) * tile_keys + 32 * (first + j / 4) + 8 * (lane_ % 4) + 2 * (j % 4) + n;
            if (at < begin || at >= end || absent[j / 4]) x = -INFINITY;
          }
      }
  }

  __device__ void store(const DecodeItem& item) const {
    const float global = args_.v_global ? *args_.v_global : 1.0f;
#pragma unroll
    for (int m = 0; m < C::Rows; ++m)
      if (args_.splits == 1)
        store_rows<C::D>(args_, item, own_row() + 16 * m, lane_, rows_[m], global, o_[m]);
      else
        put_rows<C::D, C::block_rows>(args_, item,
                                      static_cast<int>(blockIdx.x) - item.index * args_.splits,
                                      own_row() + 16 * m, lane_, rows_[m], global, o_[m]);
  }

  const Args& args_;
  const int thread_, lane_;
  const Operands operands_;
  bool has_rows_ = true;   // this warp
  int first_, count_;      // tiles with these
  int whole_, whole_end_;  // those that every row sees whole, from the first on
  // Shared addresses of q and of the stages; the current stage, from there.
  std::uint32_t query_ = 0, memory_ = 0, from_ = 0;
  OwnQuery q_[C::Rows];
  KeyScales<Keys, C::D> scales_;  // of the tile to come
  std::uint32_t v_words_[F16::scale_words];
  RowState rows_[C::Rows];
  float o_[C::Rows][C::D / 8][4];
};

}  // namespace microscale::cuda::attention::block_scaled
