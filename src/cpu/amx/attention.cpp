// Attention on AMX tiles, 128 keys at a time, for rows in groups of 16 (4, where a tile has no
// more):
//
//   K becomes tiles of BF16, exactly;                     the left operand, 16 keys a tile
//   scores^T = K q^T, q in up to three terms of BF16;     a vector of scores: one key, all rows
//   online softmax; probabilities rounded to BF16         what is summed for L is not rounded
//   V becomes tiles of BF16;                              the right operand, pairs of keys
//   output += probabilities * V, in tiles; it is multiplied only where a row's reference moves
//
// A block is the keys at positions [128 b, 128 b + 128), whatever the tile, and a row's sums have
// an order that depends on nothing else, so a row's result does not depend on the others. What is
// not exact in BF16, keys or values in FP16 or FP32, is AVX-512's.
#include "seam/attention_kernels.hpp"
#include "cpu/amx/kernels.hpp"
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vector.hpp"
#include "cpu/runs.hpp"

#include <algorithm>
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
#include "cpu/amx/attention_blocks.hpp"
#include "cpu/amx/attention_queries.hpp"

inline constexpr std::int64_t attention_rows = 128;

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
    KeyBlocks blocks(tile_, factors_);
    shape_for_scores<Rows>();
    if (groups_ > 1)
      attend_many(blocks, first / block_keys * block_keys, end);
    else
      attend_few(blocks, first / block_keys * block_keys, end);
    store_results();
  }

 private:
  float* output_of(std::int64_t group) const { return m_.output + group * Rows * tile_.d; }
  /// One group of rows. Tile products take long to arrive: scores of the next two blocks do while
  /// softmax and sums of these are computed. Two, as tiles are shaped anew between scores and sums.
  void attend_few(KeyBlocks& blocks, std::int64_t base, std::int64_t end) {
    constexpr std::int64_t together = 2, held = most_blocks + 1;
    static_assert(held > 2 * together);
    const std::int64_t count = (end - base + block_keys - 1) / block_keys;
    float *scores = m_.scores, *next_scores = m_.next_scores;
    NoWork none;
    std::int64_t found = 0;
    for (std::int64_t first = -together; first < count; first += together) {
      for (; found <= first + 2 * together; ++found)
        blocks.find(base + found * block_keys, m_.blocks[found % held]);
      shape_scores();
      for (std::int64_t j = 0, n = first + together; j < together && n < count; ++j, ++n)
        score(m_.blocks[n % held].k, m_.blocks[(n + 1) % held].k,
              next_scores + j * Rows * block_keys);
      shape_for_sums<Rows>();
      for (std::int64_t j = 0, n = first; n >= 0 && j < together && n < count; ++j, ++n) {
        const KeyBlock& block = m_.blocks[n % held];
        see_block(tile_, 0, base + n * block_keys, Rows, m_.groups[0]);
        weigh(block.factors, scores + j * Rows * block_keys, 0, m_.probabilities, none);
        add(block, m_.blocks[(n + 1) % held]);
      }
      float* const read = scores;
      scores = next_scores;
      next_scores = read;
    }
  }

  void shape_scores() const {
    if (!products_.holds_queries()) return shape_for_scores<Rows>();
    shape_for_one_group<Rows>();
    products_.hold_queries(m_.queries);
  }

  /// 32 keys at a time, which stay in the first-level cache. What was just stored takes a while
  /// until tiles can load it: products follow the expansion of the next keys.
  void score(const KeyRows& rows, const KeyRows& ahead, float* scores) {
    const bool hold = products_.holds_queries();
    const std::int64_t panel_bytes = steps_ * 2 * tile_bytes;
    for (std::int64_t i = 0; i <= block_keys / 32; ++i) {
      if (i < block_keys / 32)
        k_expander_.keys(k_, rows, ahead, i * 32, m_.keys + i % 2 * panel_bytes);
      const std::uint8_t* keys = m_.keys + (i + 1) % 2 * panel_bytes;
      if (i > 0 && hold) products_.score_held(keys, (i - 1) * 32, scores);
      if (i > 0 && !hold) products_.scores(keys, m_.queries, (i - 1) * 32, scores);
    }
  }

  void add(const KeyBlock& block, const KeyBlock& ahead) {
    std::int64_t step = 0;
    for (; step + value_steps <= steps_; step += value_steps)
      add_chunk<chunk_tiles>(block, ahead, step);
    if (step < steps_) add_chunk<chunk_tiles / 2>(block, ahead, step);
  }

  /// Several groups: some blocks of keys are expanded, then two groups at a time go through them,
  /// so that their q, scores and output stay in the first-level cache. The softmax of a block runs
  /// beside the sums of the last one and the scores of the next one.
  void attend_many(KeyBlocks& blocks, std::int64_t base, std::int64_t end) {
    blocks.find(base, m_.blocks[0]);
    while (base < end) {
      const std::int64_t left = (end - base + block_keys - 1) / block_keys,
                         count = left < most_blocks ? left : most_blocks;
      for (std::int64_t b = 0; b < count; ++b) {
        blocks.find(base + (b + 1) * block_keys, m_.blocks[b + 1]);
        expand(m_.blocks[b], m_.blocks[b + 1], b);
      }
      for (std::int64_t g = 0; g < groups_; g += 2) attend_pair(g, base, count);
      m_.blocks[0] = m_.blocks[count];
      base += count * block_keys;
    }
  }

  /// Expands the b-th block.
  void expand(const KeyBlock& block, const KeyBlock& ahead, std::int64_t b) {
    for (std::int64_t i = 0; i < block_keys / 32; ++i)
      k_expander_.keys(k_, block.k, ahead.k, i * 32, keys_of(b) + i * 2 * steps_ * tile_bytes);
    for (std::int64_t step = 0; step < steps_; step += value_steps)
      for (std::int64_t i = 0; i < block_keys / 32; ++i)
        v_expander_.values[steps_at(step) - 1](v_, block.v, ahead.v, i, step,
                                               values_of(b, step) + i * value_chunk);
  }

  std::int64_t steps_at(std::int64_t step) const {
    return steps_ - step < value_steps ? steps_ - step : value_steps;
  }

  /// Whether the b-th block's V has infinity or NaN.
  bool special_block(std::int64_t b) const {
    bool special = false;
    for (std::int64_t step = 0; step < steps_; step += value_steps)
      for (std::int64_t i = 0; i < block_keys / 32; ++i)
        special |= special_values(values_of(b, step) + i * value_chunk, 2 * steps_at(step));
    return special;
  }

  std::uint8_t* keys_of(std::int64_t b) const { return m_.keys + b * block_keys * tile_.d * 2; }
  std::uint8_t* values_of(std::int64_t b, std::int64_t step) const {
    return m_.values + b * value_block(tile_.d) + step / value_steps * 4 * value_chunk;
  }

  /// Groups g and g + 1, if there is one, through `count` blocks, those that they see.
  void attend_pair(std::int64_t g, std::int64_t base, std::int64_t count) {
    const std::int64_t groups = groups_ - g < 2 ? 1 : 2;
    std::int64_t seen[most_blocks], blocks = 0;
    for (std::int64_t b = 0; b < count; ++b)
      if (see(g, groups, base + b * block_keys)) seen[blocks++] = b;
    float *scores = m_.scores, *next_scores = m_.next_scores;
    std::int64_t summed = -1;  // the block whose probabilities are yet to be multiplied by V
    for (std::int64_t n = -1; n <= blocks; ++n) {
      TileWork work(steps_, products_.terms);
      if (summed >= 0)
        work.add_sums(groups, probabilities_of(n - 1), values_of(summed, 0), output_of(g));
      summed = -1;
      if (n + 1 < blocks)
        work.add_scores(groups, keys_of(seen[n + 1]),
                        m_.queries + g * query_terms * steps_ * tile_bytes, next_scores);
      if (n >= 0 && n < blocks) {
        const std::int64_t b = seen[n];
        see(g, groups, base + b * block_keys);
        for (std::int64_t i = 0; i < groups; ++i)
          weigh(m_.blocks[b].factors, scores + i * Rows * block_keys, g + i,
                probabilities_of(n) + i * products_.probability_bytes, work);
        work.finish();
        if (!all_seen_ && special_block(b))  // they have no influence where they are not seen
          add_seen(g, groups, n, b);
        else
          summed = b;
      }
      work.finish();
      float* const read = scores;
      scores = next_scores;
      next_scores = read;
    }
  }

  std::uint8_t* probabilities_of(std::int64_t n) const {
    return m_.probabilities + n % 2 * 2 * products_.probability_bytes;
  }

  /// What the rows of groups g ... see of a block. Returns whether they see any of it.
  bool see(std::int64_t g, std::int64_t groups, std::int64_t base) {
    all_seen_ = true;
    bool any = false;
    for (std::int64_t i = g; i < g + groups; ++i) {
      RowGroup& group = m_.groups[i];
      see_block(tile_, i * Rows, base, Rows, group);
      all_seen_ &= group.all_seen;
      for (int r = 0; r < Rows; ++r) any |= group.begin[r] < group.end[r];
    }
    return any;
  }

  /// Adds V of block b to groups g ..., of each row what it sees.
  void add_seen(std::int64_t g, std::int64_t groups, std::int64_t n, std::int64_t b) {
    for (std::int64_t i = 0; i < groups; ++i)
      for (std::int64_t step = 0; step < steps_; step += value_steps)
        add_seen(g + i, probabilities_of(n) + i * products_.probability_bytes, values_of(b, step),
                 step);
  }
  void add_seen(std::int64_t g, const std::uint8_t* probabilities, const std::uint8_t* values,
                std::int64_t step) {
    const std::int64_t left = tile_.rows - g * Rows, rows = left < Rows ? left : Rows;
    float* const output = output_of(g) + 2 * step * products_.sum_floats;
    if (steps_ - step >= value_steps)
      products_.template add_seen<chunk_tiles>(probabilities, values, m_.groups[g], rows, m_.spare,
                                               output);
    else
      products_.template add_seen<chunk_tiles / 2>(probabilities, values, m_.groups[g], rows,
                                                   m_.spare, output);
  }

  template <class Work>
  void weigh(const BlockFactors& factors, float* scores, std::int64_t g,
             std::uint8_t* probabilities, Work& work) {
    RowGroup& group = m_.groups[g];
    BlockSoftmax<Rows> softmax;
    if (softmax.begin(factors, scores, group)) products_.move_output(group.alpha, output_of(g));
    for (int i = 0; i < block_keys / 32; ++i) softmax.weigh(i, probabilities + i * Rows * 64, work);
    softmax.end(group);
  }

  /// Adds what `Tiles` times 16 elements of V from 32 step on give. Products run beside the
  /// expansion of the next keys.
  template <int Tiles>
  void add_chunk(const KeyBlock& block, const KeyBlock& ahead, std::int64_t step) {
    float* const output = output_of(0) + 2 * step * products_.sum_floats;
    const ExpandValues expand = v_expander_.values[Tiles / 2 - 1];
    const bool all_seen = m_.groups[0].all_seen;
    bool special = false;  // NaN and infinity have no influence where they are not seen
    finish_stores();
    products_.template load_sums<Tiles>(output);
    for (std::int64_t i = 0; i <= block_keys / 32; ++i) {
      std::uint8_t* const values = m_.values + i * value_chunk;
      if (i < block_keys / 32) {
        expand(v_, block.v, ahead.v, i, step, values);
        special |= !all_seen && special_values(values, Tiles);
      }
      if (i > 0)
        products_.template add_values<Tiles>(m_.probabilities + (i - 1) * Rows * 64,
                                             values - value_chunk);
    }
    if (special)
      add_seen(0, m_.probabilities, m_.values, step);
    else
      products_.template store_sums<Tiles>(output);
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
  bool all_seen_ = true;  // by the rows that see() looked at last
};

/// By AVX-512, whose tiles have fewer rows.
void attend_without_tiles(const AttentionTile& tile) {
  for (std::int64_t r = 0; r < tile.rows; r += avx512_attention.tile_rows) {
    AttentionTile part = tile;
    part.rows = std::min(tile.rows - r, avx512_attention.tile_rows);
    part.q += r * tile.d;
    part.row += r;
    part.largest += r;
    part.sum += r;
    part.output += r * tile.d;
    avx512_attention.attend(part);
  }
}

void attend_tile(const AttentionTile& tile) {
  KeySide k{.d = tile.d}, v{.d = tile.d};
  bool exact = true;
  for (const AttentionKeys& keys : tile.keys) {
    if (!keys.k.dense()) k.blocks = true, k.format = keys.k.format;
    if (!keys.v.dense()) v.blocks = true, v.format = keys.v.format;
    exact &= (!keys.k.dense() || keys.k.dtype == DType::bf16) &&
             (!keys.v.dense() || keys.v.dtype == DType::bf16);
  }
  if (!exact) return attend_without_tiles(tile);
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
/// probability within 2^-8 (2^16 roundings), all keys of all blocks in sequence, two for every time
/// that a reference moves. Or AVX-512's.
inline AttentionRoundings attention_roundings(std::int64_t keys, std::int64_t d) {
  const AttentionRoundings other = avx512_attention.roundings(keys, d);
  const std::int64_t blocks = keys / block_keys + 2;
  const std::int64_t score = query_terms * d + 12,
                     output = (1 << 16) + blocks * block_keys + 9 + 2 * blocks;
  return {.score = score > other.score ? score : other.score,
          .output = output > other.output ? output : other.output,
          .query = other.query,
          .weight = other.weight};
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
