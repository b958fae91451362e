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
#include "cpu/amx/attention_softmax.hpp"
#include "cpu/amx/attention_products.hpp"
#include "cpu/amx/attention_queries.hpp"

inline constexpr std::int64_t attention_rows = 64;

/// K and V of 128 keys, and what becomes of their products.
struct KeyBlock {
  KeyRows k, v;
  BlockFactors factors;
};

/// The memory of one tile of attention.
struct AttentionMemory {
  std::uint8_t *queries, *keys, *values, *probabilities, *spare;
  float *scores, *next_scores, *sums, *output;
  RowGroup* groups;
  KeyBlock* blocks;  // three: the one in the softmax and those after it

  AttentionMemory(void* workspace, std::int64_t rows_of_tile, std::int64_t d) {
    at_ = static_cast<std::uint8_t*>(workspace);
    const std::int64_t width = padded(d), count = (rows_of_tile + 15) / 16 * 16;
    queries = take(count * width * 2 * query_terms);
    keys = take(32 * width * 2);
    values = take(block_keys * width * 2);
    spare = take(block_keys * width * 2);
    probabilities = take(count * block_keys * 2 * probability_terms);
    scores = reinterpret_cast<float*>(take(count * block_keys * 4));
    next_scores = reinterpret_cast<float*>(take(count * block_keys * 4));
    sums = reinterpret_cast<float*>(take(count * width * 4 * probability_terms));
    output = reinterpret_cast<float*>(take(count * width * 4));
    groups =
        reinterpret_cast<RowGroup*>(take(count / 16 * static_cast<std::int64_t>(sizeof(RowGroup))));
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

/// Goes through a tile's keys block by block.
class KeyBlocks {
 public:
  KeyBlocks(const AttentionTile& tile, const KeySide& k, const KeySide& v, double k_unit,
            double v_unit)
      : tile_(tile),
        k_(k),
        v_(v),
        k_unit_(k_unit),
        v_unit_(v_unit),
        query_factor_(k.low() ? __builtin_ldexp(1.0, -query_exponent) : 1.0) {}

  /// The rows at positions [base, base + 128), from the run on at which the last call stopped.
  void find(std::int64_t base, KeyBlock& block) {
    block.k.clear();
    block.v.clear();
    while (at_ < tile_.keys.size() && tile_.keys[at_].begin + tile_.keys[at_].count <= base) ++at_;
    for (std::size_t i = at_; i < tile_.keys.size() && tile_.keys[i].begin < base + block_keys;
         ++i) {
      const AttentionKeys& keys = tile_.keys[i];
      const std::int64_t from = keys.begin > base ? keys.begin - base : 0,
                         last = keys.begin + keys.count - base,
                         to = last < block_keys ? last : block_keys;
      block.k.set(from, to, keys.k, base + from - keys.begin);
      block.v.set(from, to, keys.v, base + from - keys.begin);
      const auto k_factor = static_cast<float>(tile_.scale * keys.k_factor / k_unit_ *
                                               k_.factor(keys.k) * query_factor_),
                 v_factor = static_cast<float>(keys.v_factor / v_unit_ * v_.factor(keys.v));
      for (std::int64_t j = from; j < to; ++j) {
        block.factors.k[j] = k_factor;
        block.factors.v[j] = v_factor;
      }
    }
  }

 private:
  const AttentionTile& tile_;
  const KeySide &k_, &v_;
  double k_unit_, v_unit_, query_factor_;
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

/// A power of two not below |x|, at least 1, so that factors of a whole tile can be divided by it.
inline double unit_of(double x, double unit) {
  int exponent = 0;
  if (!__builtin_isfinite(x) || __builtin_fabs(x) <= unit) return unit;
  __builtin_frexp(x, &exponent);
  return __builtin_ldexp(1.0, exponent);
}

/// 32 keys at a time, which stay in the first-level cache.
template <int Rows>
inline void score_block(const Products<Rows>& products, const KeySide& k, const KeyRows& rows,
                        const KeyRows& ahead, std::int64_t groups, const AttentionMemory& m,
                        float* scores) {
  for (std::int64_t first = 0; first < block_keys; first += 32) {
    expand_side(k, rows, ahead, first, m.keys, false);
    products.scores(m.keys, m.queries, groups, first, scores);
  }
}

template <int Rows>
void attend_rows(const AttentionTile& tile, AttentionMemory& m, const KeySide& k, const KeySide& v,
                 double k_unit, double v_unit) {
  const std::int64_t groups = (tile.rows + Rows - 1) / Rows, steps = padded(tile.d) / 32,
                     first = tile.keys.front().begin,
                     end = tile.keys.back().begin + tile.keys.back().count;
  const int terms = load_queries<Rows>(tile, k, k_unit, m.queries, m.groups);
  for (std::int64_t i = 0; i < groups * Rows * steps * 32; i += lanes)
    store_float(m.output + i, as_float(zero()));
  KeyBlock *now = m.blocks, *next = m.blocks + 1, *later = m.blocks + 2;
  for (int i = 0; i < 3; ++i)
    m.blocks[i].factors = {.k = {}, .v = {}, .softcap = static_cast<float>(tile.softcap)};
  KeyBlocks blocks(tile, k, v, k_unit, v_unit);
  const Products<Rows> products{steps, terms};
  const std::int64_t output_floats = Rows * steps * 32, begin = first / block_keys * block_keys;
  blocks.find(begin, *now);
  blocks.find(begin + block_keys, *next);
  score_block(products, k, now->k, next->k, groups, m, m.scores);
  for (std::int64_t base = begin; base < end; base += block_keys) {
    // Tile products take long to arrive: the next block's scores and the last block's sums do while
    // this block's softmax is computed.
    blocks.find(base + 2 * block_keys, *later);
    if (base + block_keys < end)
      score_block(products, k, next->k, later->k, groups, m, m.next_scores);
    bool all_seen = true;
    for (std::int64_t g = 0; g < groups; ++g) {
      RowGroup& group = m.groups[g];
      if (base > begin)
        products.add_sums(m.sums + g * products.sum_floats(), group.alpha,
                          m.output + g * output_floats);
      see_block(tile, g * Rows, base, Rows, group);
      all_seen &= group.all_seen;
      softmax_group<Rows>(now->factors, m.scores + g * Rows * block_keys, group,
                          m.probabilities + g * products.probability_bytes());
    }
    expand_side(v, now->v, next->v, 0, m.values, true);
    if (all_seen || !special_values(m.values, steps))
      products.sums(m.probabilities, m.values, groups, m.sums);
    else  // NaN and infinity have no influence where they are not seen
      products.seen_sums(m.probabilities, m.values, m.groups, tile.rows, m.spare, m.sums);
    KeyBlock* const used = now;
    now = next;
    next = later;
    later = used;
    float* const scores = m.scores;
    m.scores = m.next_scores;
    m.next_scores = scores;
  }
  for (std::int64_t g = 0; g < groups; ++g)
    products.add_sums(m.sums + g * products.sum_floats(), m.groups[g].alpha,
                      m.output + g * output_floats);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const RowGroup& group = m.groups[r / Rows];
    const float* row = m.output + r / Rows * Rows * steps * 32 + r % Rows * 16;
    tile.largest[r] = static_cast<double>(group.largest[r % Rows]);
    tile.sum[r] = group.sum[r % Rows];
    for (std::int64_t t = 0; t < 2 * steps; ++t)
      for (std::int64_t c = 0; c < 16; ++c) {
        const std::int64_t e = value_element(v, t, c);
        if (e < tile.d)
          tile.output[r * tile.d + e] = static_cast<double>(row[t * Rows * 16 + c]) * v_unit;
      }
  }
}

void attend_tile(const AttentionTile& tile) {
  KeySide k{.d = tile.d}, v{.d = tile.d};
  double k_unit = 1, v_unit = 1;
  bool exact = true;
  for (const AttentionKeys& keys : tile.keys) {
    if (!keys.k.dense()) k.blocks = true, k.format = keys.k.format;
    if (!keys.v.dense()) v.blocks = true, v.format = keys.v.format;
    exact &= (!keys.k.dense() || keys.k.dtype == DType::bf16) &&
             (!keys.v.dense() || keys.v.dtype == DType::bf16);
    k_unit = unit_of(tile.scale * keys.k_factor, k_unit);
    v_unit = unit_of(keys.v_factor, v_unit);
  }
  if (!exact) return avx512_attention.attend(tile);
  AttentionMemory m(tile.workspace, tile.rows, tile.d);
  if (tile.rows <= 4) {
    load_tile_config<4>();
    attend_rows<4>(tile, m, k, v, k_unit, v_unit);
  } else {
    load_tile_config<16>();
    attend_rows<16>(tile, m, k, v, k_unit, v_unit);
  }
  _tile_release();
}

inline std::int64_t attention_workspace(std::int64_t rows, std::int64_t keys, std::int64_t d) {
  const std::int64_t own = AttentionMemory(nullptr, rows, d).bytes(nullptr),
                     other = avx512_attention.workspace_bytes(rows, keys, d);
  return own > other ? own : other;
}

/// A score: the terms of q, each d products in sequence, then factors and shift. The result: a
/// probability within 2^-17 (128 roundings), a block's keys in sequence, its terms, then two
/// roundings a block. Or AVX-512's.
inline AttentionRoundings attention_roundings(std::int64_t keys, std::int64_t d) {
  const AttentionRoundings other = avx512_attention.roundings(keys, d);
  const std::int64_t score = query_terms * padded(d) + 12,
                     output = 128 + block_keys + 9 + 2 * (keys / block_keys + 2);
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
