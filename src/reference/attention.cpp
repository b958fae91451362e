#include "reference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/attention_numerics.hpp"
#include "reference/matmul.hpp"

namespace microscale {
namespace {

constexpr std::int64_t tile_rows = 16;

std::int64_t first_position(const AttentionTile& tile) {
  return tile.keys.empty() ? 0 : tile.keys.front().begin;
}
std::int64_t last_position(const AttentionTile& tile) {
  return tile.keys.empty() ? 0 : tile.keys.back().begin + tile.keys.back().count;
}

bool sees(const AttentionRow& row, std::int64_t position) {
  return position >= row.begin && position < row.end;
}

/// Calls fn(position, values) with every key's row of K or of V, as doubles of `d` values.
template <class Function>
void for_each_key(const AttentionTile& tile, bool values, double* decoded, Function&& fn) {
  for (const AttentionKeys& keys : tile.keys)
    for (std::int64_t j = 0; j < keys.count; ++j) {
      const double factor = values ? keys.v_factor : keys.k_factor;
      for (std::int64_t i = 0; i < tile.d; ++i)
        decoded[i] = matmul_element(values ? keys.v : keys.k, j, i) * factor;
      fn(keys.begin + j, decoded);
    }
}

void attend(const AttentionTile& tile) {
  const std::int64_t first = first_position(tile), count = last_position(tile) - first;
  double* decoded = static_cast<double*>(tile.workspace);
  double* scores = decoded + tile.d;  // row r, position p at r * count + p - first

  for_each_key(tile, false, decoded, [&](std::int64_t position, const double* k) {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      double score = -std::numeric_limits<double>::infinity();
      if (sees(tile.row[r], position)) {
        double dot = 0;
        for (std::int64_t i = 0; i < tile.d; ++i) dot += tile.q[r * tile.d + i] * k[i];
        score = dot * tile.scale + tile.row[r].shift;
        if (tile.softcap > 0) score = tile.softcap * std::tanh(score / tile.softcap);
      }
      scores[r * count + position - first] = score;
    }
  });

  for (std::int64_t r = 0; r < tile.rows; ++r) {
    double* p = scores + r * count;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t j = 0; j < count; ++j) largest = std::max(largest, p[j]);
    for (std::int64_t j = 0; j < count; ++j) {
      p[j] = p[j] == -std::numeric_limits<double>::infinity() ? 0 : std::exp(p[j] - largest);
      sum += p[j];
    }
    tile.largest[r] = largest;
    tile.sum[r] = sum;
    round_probabilities(tile.probabilities, tile.probability_format, tile.two_term, first, p,
                        count);
  }

  std::fill(tile.output, tile.output + tile.rows * tile.d, 0.0);
  for_each_key(tile, true, decoded, [&](std::int64_t position, const double* v) {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      if (!sees(tile.row[r], position)) continue;  // whatever v holds
      const double p = scores[r * count + position - first];
      for (std::int64_t i = 0; i < tile.d; ++i) tile.output[r * tile.d + i] += p * v[i];
    }
  });
}

}  // namespace

const AttentionKernels reference_attention{
    .supports = [](const AttentionNeeds&) { return true; },
    .tile_rows = tile_rows,
    .workspace_bytes =
        [](std::int64_t rows, std::int64_t keys, std::int64_t d) {
          return (rows * keys + d) * static_cast<std::int64_t>(sizeof(double));
        },
    .attend = attend,
    .roundings = [](std::int64_t, std::int64_t) { return AttentionRoundings{}; },
};

}  // namespace microscale
