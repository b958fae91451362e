// Attention on AMX tiles, 128 keys at a time, for rows in groups of 16 (4, where a tile has no
// more):
//
//   K becomes tiles of BF16, exactly;                     the left operand, 16 keys a tile
//   scores^T = K q^T, q in up to three terms of BF16;     a vector of scores: one key, all rows
//   online softmax; probabilities in two terms of BF16, within 2^-17
//   V becomes tiles of BF16;                              the right operand, pairs of keys
//   the block's sums = probabilities * V, then output = output * e^(old - new maximum) + sums
//
// A block is the keys at positions [128 b, 128 b + 128), whatever the tile, and a row's sums have
// an order that depends on nothing else, so a row's result does not depend on the others. What is
// not exact in BF16, keys or values in FP16 or FP32, is AVX-512's.
#include "core/attention_kernels.hpp"
#include "cpu/amx/kernels.hpp"
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/runs.hpp"

#include <type_traits>

MICROSCALE_AMX_BEGIN
using namespace microscale::avx512;
#include "cpu/generic/dense.hpp"
#include "cpu/avx512/lookup.hpp"
#include "cpu/generic/dequantize_mxfp8.hpp"
#include "cpu/avx512/matmul_scales.hpp"
#include "cpu/amx/expand.hpp"
#include "cpu/generic/attention_softmax.hpp"
#include "cpu/amx/attention_rows.hpp"
#include "cpu/amx/attention_expand.hpp"
#include "cpu/amx/attention_softmax.hpp"
#include "cpu/amx/attention_products.hpp"
#include "cpu/amx/attention_work.hpp"
#include "cpu/amx/attention_queries.hpp"

inline constexpr std::int64_t attention_rows = 128;

/// K and V of 128 keys, and what becomes of their products.
struct KeyBlock {
  KeyRows k, v;
  BlockFactors factors;
};

/// The memory of one tile of attention.
struct AttentionMemory {
  std::uint8_t *queries, *keys, *values, *probabilities, *spare;
  float *scores, *next_scores, *output;
  RowGroup* groups;
  KeyBlock* blocks;  // three: the one in the softmax and those after it

  AttentionMemory(void* workspace, std::int64_t rows_of_tile, std::int64_t d) {
    at_ = static_cast<std::uint8_t*>(workspace);
    const std::int64_t count = (rows_of_tile + 15) / 16 * 16;
    queries = take(count * d * 2 * query_terms);
    keys = take(block_keys * d * 2);
    values = take(block_keys * ((d + 63) / 64 * 64) * 2);
    spare = take(block_keys / 32 * value_chunk);
    probabilities = take(count * block_keys * 2);
    scores = reinterpret_cast<float*>(take(count * block_keys * 4));
    next_scores = reinterpret_cast<float*>(take(count * block_keys * 4));
    output = reinterpret_cast<float*>(take(count * d * 4));
    groups =
        reinterpret_cast<RowGroup*>(take(count / 4 * static_cast<std::int64_t>(sizeof(RowGroup))));
    blocks = reinterpret_cast<KeyBlock*>(take(3 * static_cast<std::int64_t>(sizeof(KeyBlock))));
  }
  std::int64_t bytes(const void* workspace) const {
    return at_ - static_cast<const std::uint8_t*>(workspace);
  }

 private:
  std::uint8_t* take(std::int64_t bytes) {
    std::uint8_t* const p = at_;
    at_ += (bytes + 63) / 64 * 64;
    return p;
  }
  std::uint8_t* at_;
};

/// What a tile's keys have in common.
struct TileFactors {
  double k_unit = 1, v_unit = 1;        // what factors are divided by
  bool same_k = true, same_v = true;    // one factor, the unit, for all keys
  double step = 1;                      // of products, to base 2, if same_k

  explicit TileFactors(const AttentionTile& tile) {
    const AttentionKeys& first = tile.keys.front();
    for (const AttentionKeys& keys : tile.keys) {
      same_k &= keys.k_factor == first.k_factor;
      same_v &= keys.v_factor == first.v_factor;
      k_unit = unit_of(tile.scale * keys.k_factor, k_unit);
      v_unit = unit_of(keys.v_factor, v_unit);
    }
    if (same_v) v_unit = first.v_factor;
    step = tile.scale * first.k_factor * log2_of_e;
  }
  /// Whether products serve as scores.
  bool plain(const AttentionTile& tile) const {
    return same_k && tile.softcap == 0 && step > 0x1p-100 && step < 0x1p100;
  }

 private:
  /// A power of two not below |x|, at least 1, so that factors of a whole tile can be divided by it.
  static double unit_of(double x, double unit) {
    int exponent = 0;
    if (!__builtin_isfinite(x) || __builtin_fabs(x) <= unit) return unit;
    __builtin_frexp(x, &exponent);
    return __builtin_ldexp(1.0, exponent);
  }
};

/// Goes through a tile's keys block by block.
class KeyBlocks {
 public:
  KeyBlocks(const AttentionTile& tile, const TileFactors& factors)
      : tile_(tile), factors_(factors), plain_(factors.plain(tile)) {
    for (const AttentionKeys& keys : tile.keys)
      mixed_ |= keys.k.dense() != tile.keys.front().k.dense() ||
                keys.v.dense() != tile.keys.front().v.dense();
  }

  /// The rows at positions [base, base + 128), from the run on at which the last call stopped.
  void find(std::int64_t base, KeyBlock& block) {
    BlockFactors& f = block.factors;
    f.softcap = static_cast<float>(tile_.softcap);
    f.unit = static_cast<float>(factors_.k_unit);
    f.step = static_cast<float>(plain_ ? factors_.step : log2_of_e);
    f.plain = plain_;
    f.same_v = factors_.same_v;
    while (at_ < tile_.keys.size() && tile_.keys[at_].begin + tile_.keys[at_].count <= base) ++at_;
    const bool whole = at_ < tile_.keys.size() && tile_.keys[at_].begin <= base &&
                       tile_.keys.back().begin + tile_.keys.back().count >= base + block_keys;
    if (!whole || mixed_) {
      block.k.clear();
      block.v.clear();
    }
    block.k.block_scaled = whole && !mixed_ && !tile_.keys[at_].k.dense();
    block.v.block_scaled = whole && !mixed_ && !tile_.keys[at_].v.dense();
    for (std::size_t i = at_; i < tile_.keys.size() && tile_.keys[i].begin < base + block_keys;
         ++i) {
      const AttentionKeys& keys = tile_.keys[i];
      const std::int64_t from = keys.begin > base ? keys.begin - base : 0,
                         last = keys.begin + keys.count - base,
                         to = last < block_keys ? last : block_keys;
      block.k.set(from, to, keys.k, base + from - keys.begin);
      block.v.set(from, to, keys.v, base + from - keys.begin);
      if (!f.plain) fill(f.k, from, to, tile_.scale * keys.k_factor / factors_.k_unit);
      if (!f.same_v) fill(f.v, from, to, keys.v_factor / factors_.v_unit);
    }
  }

 private:
  static void fill(float* output, std::int64_t from, std::int64_t to, double factor) {
    for (std::int64_t j = from; j < to; ++j) output[j] = static_cast<float>(factor);
  }

  const AttentionTile& tile_;
  const TileFactors& factors_;
  bool plain_, mixed_ = false;  // mixed: some rows have scales and some have none
  std::size_t at_ = 0;
};

/// The part of a block that each row of a group sees.
inline void see_block(const AttentionTile& tile, std::int64_t first, std::int64_t base,
                      std::int64_t rows, RowGroup& group) {
  group.all_seen = true;
  for (std::int64_t r = 0; r < rows && first + r < tile.rows; ++r) {
    const AttentionRow& row = tile.row[first + r];
    const std::int64_t begin = row.begin > base ? row.begin - base : 0,
                       end = row.end - base < block_keys ? row.end - base : block_keys;
    group.begin[r] = static_cast<std::int32_t>(begin < end ? begin : 0);
    group.end[r] = static_cast<std::int32_t>(begin < end ? end : 0);
    group.all_seen &= group.begin[r] == 0 && group.end[r] == block_keys;
  }
}

/// What one tile is computed with.
template <int Rows>
class TileAttention {
 public:
  TileAttention(const AttentionTile& tile, const AttentionMemory& m, const KeySide& k,
                const KeySide& v)
      : tile_(tile),
        m_(m),
        k_(k),
        v_(v),
        factors_(tile),
        groups_((tile.rows + Rows - 1) / Rows),
        steps_(tile.d / 32),
        k_expander_(expander_of(k)),
        v_expander_(expander_of(v)) {}

  void run() {
    const int terms = load_queries<Rows>(tile_, k_, m_.output, m_.queries, m_.groups);
    products_ = {steps_, terms};
    for (std::int64_t i = 0; i < groups_ * Rows * tile_.d; i += lanes)
      store_float(m_.output + i, as_float(zero()));
    const std::int64_t first = tile_.keys.front().begin,
                       end = tile_.keys.back().begin + tile_.keys.back().count;
    KeyBlock *now = m_.blocks, *next = m_.blocks + 1, *later = m_.blocks + 2;
    KeyBlocks blocks(tile_, factors_);
    shape_for_scores<Rows>();
    std::int64_t base = first / block_keys * block_keys;
    blocks.find(base, *now);
    blocks.find(base + block_keys, *next);
    score(now->k, next->k, m_.scores);
    // Tile products take long to arrive: the next block's scores do while this block's softmax is
    // computed, and this block's sums while the next one's keys are expanded.
    float *scores = m_.scores, *next_scores = m_.next_scores;
    for (; base < end; base += block_keys) {
      blocks.find(base + 2 * block_keys, *later);
      see(base);
      if (Rows == 16 && groups_ > 1)
        compute_together(*now, *next, base + block_keys < end ? later : nullptr, scores,
                         next_scores);
      else
        compute_apart(*now, *next, base + block_keys < end ? later : nullptr, scores, next_scores);
      KeyBlock* const used = now;
      now = next;
      next = later;
      later = used;
      float* const read = scores;
      scores = next_scores;
      next_scores = read;
    }
    store_results();
  }

 private:
  float* output_of(std::int64_t group) const { return m_.output + group * Rows * tile_.d; }
  std::uint8_t* probabilities_of(std::int64_t group) const {
    return m_.probabilities + group * products_.probability_bytes;
  }

  /// 32 keys at a time, which stay in the first-level cache. What was just stored takes a while
  /// until tiles can load it: products follow the expansion of the next keys.
  void score(const KeyRows& rows, const KeyRows& ahead, float* scores) {
    const bool hold = products_.holds_queries(groups_);
    if (hold) {
      shape_for_one_group<Rows>();
      products_.hold_queries(m_.queries);
    } else if (Rows != 16) {
      shape_for_scores<Rows>();
    }
    const std::int64_t panel_bytes = steps_ * 2 * tile_bytes;
    for (std::int64_t i = 0; i <= block_keys / 32; ++i) {
      if (i < block_keys / 32)
        k_expander_.keys(k_, rows, ahead, i * 32, m_.keys + i % 2 * panel_bytes);
      const std::uint8_t* keys = m_.keys + (i + 1) % 2 * panel_bytes;
      if (i > 0 && hold) products_.score_held(keys, (i - 1) * 32, scores);
      if (i > 0 && !hold)
        products_.scores(keys, m_.queries, groups_, (i - 1) * 32, scores);
    }
  }

  void add(const KeyBlock& block, const KeyBlock& ahead) {
    if (Rows != 16 || products_.holds_queries(groups_)) shape_for_sums<Rows>();
    std::int64_t step = 0;
    for (; step + value_steps <= steps_; step += value_steps)
      add_chunk<chunk_tiles>(block, ahead, step);
    if (step < steps_) add_chunk<chunk_tiles / 2>(block, ahead, step);
  }

  void see(std::int64_t base) {
    all_seen_ = true;
    for (std::int64_t g = 0; g < groups_; ++g) {
      see_block(tile_, g * Rows, base, Rows, m_.groups[g]);
      all_seen_ &= m_.groups[g].all_seen;
    }
  }

  /// The next block's scores, if there is one after it, this block's softmax, its sums.
  void compute_apart(const KeyBlock& block, const KeyBlock& next, const KeyBlock* later,
                     float* scores, float* next_scores) {
    if (later) score(next.k, later->k, next_scores);
    NoWork none;
    for (std::int64_t g = 0; g < groups_; ++g) weigh(block.factors, scores, g, none);
    add(block, next);
  }

  /// The same for several groups of 16: the softmax of two beside sums of the last two and scores of
  /// the next block.
  void compute_together(const KeyBlock& block, const KeyBlock& next, const KeyBlock* later,
                        float* scores, float* next_scores) {
    bool special = false;  // NaN and infinity have no influence where they are not seen
    for (std::int64_t step = 0; step < steps_; step += value_steps)
      for (std::int64_t i = 0; i < block_keys / 32; ++i) {
        const std::int64_t steps = steps_ - step < value_steps ? steps_ - step : value_steps;
        std::uint8_t* const values = m_.values + (step / value_steps * 4 + i) * value_chunk;
        v_expander_.values[steps - 1](v_, block.v, next.v, i, step, values);
        special |= !all_seen_ && special_values(values, 2 * steps);
      }
    if (special) return compute_apart(block, next, later, scores, next_scores);
    if (later)
      for (std::int64_t i = 0; i < block_keys / 32; ++i)
        k_expander_.keys(k_, next.k, later->k, i * 32, m_.keys + i * 2 * steps_ * tile_bytes);
    for (std::int64_t g = 0; g < groups_ + 2; g += 2) {
      const std::int64_t left = groups_ - g;
      TileWork work(steps_, products_.terms);
      if (g > 0) work.add_sums(left + 2, probabilities_of(g - 2), m_.values, output_of(g - 2));
      if (left > 0 && later)
        work.add_scores(left, m_.keys, m_.queries + g * query_terms * steps_ * tile_bytes,
                        next_scores + g * Rows * block_keys);
      if (left > 0) weigh(block.factors, scores, g, work);
      if (left > 1) weigh(block.factors, scores, g + 1, work);
      work.finish();
    }
  }

  template <class Work>
  void weigh(const BlockFactors& factors, float* scores, std::int64_t g, Work& work) {
    RowGroup& group = m_.groups[g];
    BlockSoftmax<Rows> softmax;
    if (softmax.begin(factors, scores + g * Rows * block_keys, group))
      products_.move_output(group.alpha, output_of(g));
    for (int i = 0; i < block_keys / 32; ++i)
      softmax.weigh(i, probabilities_of(g) + i * Rows * 64, work);
    softmax.end(group);
  }

  /// Adds what `Tiles` times 16 elements of V from 32 step on give.
  template <int Tiles>
  void add_chunk(const KeyBlock& block, const KeyBlock& ahead, std::int64_t step) {
    const std::int64_t at = 2 * step * products_.sum_floats;
    const ExpandValues expand = v_expander_.values[Tiles / 2 - 1];
    // The first group's products run beside the expansion. If values that are not seen turn out to
    // be infinite or NaN, they are done again.
    finish_stores();
    products_.template load_sums<Tiles>(output_of(0) + at);
    for (std::int64_t i = 0; i <= block_keys / 32; ++i) {
      if (i < block_keys / 32) expand(v_, block.v, ahead.v, i, step, m_.values + i * value_chunk);
      if (i > 0)
        products_.template add_values<Tiles>(probabilities_of(0) + (i - 1) * Rows * 64,
                                             m_.values + (i - 1) * value_chunk);
    }
    const bool special = !all_seen_ && special_chunk<Tiles>();
    if (!special) products_.template store_sums<Tiles>(output_of(0) + at);
    for (std::int64_t g = special ? 0 : 1; g < groups_; ++g) {
      const std::int64_t rows = tile_.rows - g * Rows;
      if (special)
        products_.template add_seen<Tiles>(probabilities_of(g), m_.values, m_.groups[g],
                                           rows < Rows ? rows : Rows, m_.spare, output_of(g) + at);
      else
        products_.template add_block<Tiles>(probabilities_of(g), m_.values, output_of(g) + at);
    }
  }

  template <int Tiles>
  bool special_chunk() const {
    bool special = false;
    for (std::int64_t i = 0; i < block_keys / 32; ++i)
      special |= special_values(m_.values + i * value_chunk, Tiles);
    return special;
  }

  void store_results() const {
    const bool plain = factors_.plain(tile_);
    const double of_products = plain ? tile_.scale * tile_.keys.front().k_factor : 1.0;
    alignas(64) std::int32_t places[32];  // of each element in two tiles
    for (std::int32_t i = 0; i < 32; ++i) places[v_.value_element(i / 16, i % 16)] = i;
    for (std::int64_t r = 0; r < tile_.rows; ++r) {
      const RowGroup& group = m_.groups[r / Rows];
      const float* row = output_of(r / Rows) + r % Rows * 16;
      tile_.largest[r] = static_cast<double>(group.reference[r % Rows]) * of_products +
                         (plain ? tile_.row[r].shift : 0.0);
      tile_.sum[r] = group.sum[r % Rows];
      for (std::int64_t s = 0; s < steps_; ++s, row += 2 * Rows * 16) {
        const Float a = load_float(row), b = load_float(row + Rows * 16);
        double* const to = tile_.output + r * tile_.d + s * 32;
        store_sixteen(_mm512_permutex2var_ps(a, load(places), b), to);
        store_sixteen(_mm512_permutex2var_ps(a, load(places + 16), b), to + 16);
      }
    }
  }

  void store_sixteen(Float x, double* output) const {
    const __m512d unit = _mm512_set1_pd(factors_.v_unit);
    _mm512_storeu_pd(output, _mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(x)), unit));
    _mm512_storeu_pd(output + 8,
                     _mm512_mul_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)), unit));
  }

  const AttentionTile& tile_;
  const AttentionMemory& m_;
  const KeySide &k_, &v_;
  const TileFactors factors_;
  const std::int64_t groups_, steps_;
  const Expander k_expander_, v_expander_;
  Products<Rows> products_{};
  bool all_seen_ = true;
};

void attend_tile(const AttentionTile& tile) {
  KeySide k{.d = tile.d}, v{.d = tile.d};
  bool exact = true;
  for (const AttentionKeys& keys : tile.keys) {
    if (!keys.k.dense()) k.blocks = true, k.format = keys.k.format;
    if (!keys.v.dense()) v.blocks = true, v.format = keys.v.format;
    exact &= (!keys.k.dense() || keys.k.dtype == DType::bf16) &&
             (!keys.v.dense() || keys.v.dtype == DType::bf16);
  }
  if (!exact) return avx512_attention.attend(tile);
  const AttentionMemory m(tile.workspace, tile.rows, tile.d);
  if (tile.rows <= 4)
    TileAttention<4>(tile, m, k, v).run();
  else
    TileAttention<16>(tile, m, k, v).run();
  _tile_release();
}

inline std::int64_t attention_workspace(std::int64_t rows, std::int64_t keys, std::int64_t d) {
  const std::int64_t own = AttentionMemory(nullptr, rows, d).bytes(nullptr),
                     other = avx512_attention.workspace_bytes(rows, keys, d);
  return own > other ? own : other;
}

/// A score: the terms of q, each d products in sequence, then factors and shift. The result: a
/// probability within 2^-16 (256 roundings), both terms of all keys of some blocks in sequence, then
/// a few for every time that a reference moves. Or AVX-512's.
inline AttentionRoundings attention_roundings(std::int64_t keys, std::int64_t d) {
  const AttentionRoundings other = avx512_attention.roundings(keys, d);
  const std::int64_t blocks = keys / block_keys + 2;
  const std::int64_t score = query_terms * d + 12,
                     output = (1 << 16) + blocks * block_keys + 9 + 2 * blocks;
  return {score > other.score ? score : other.score, output > other.output ? output : other.output};
}
MICROSCALE_AMX_END

namespace microscale {
const AttentionKernels amx_attention{
    .supports = [](const AttentionNeeds& needs) { return avx512_attention.supports(needs); },
    .tile_rows = amx::attention_rows,
    .workspace_bytes = amx::attention_workspace,
    .attend = amx::attend_tile,
    .roundings = amx::attention_roundings};
}
