#include "reference/kv_rows.hpp"

#include "formats/elements.hpp"
#include "formats/half.hpp"
#include "formats/producers.hpp"
#include "formats/rope.hpp"

namespace microscale {

void hadamard_runs(float* row, std::int64_t d, int order) {
  const float scale = hadamard_scale(order);
  for (float* run = row; run < row + d; run += order) {
    for (int i = 0; i < order; i += 2) hadamard_first(run[i], run[i + 1], scale);
    for (int distance = 2; distance < order; distance *= 2)
      for (int i = 0; i < order; ++i)
        if (!(i & distance)) hadamard_step(run[i], run[i + distance]);
  }
}

void rotate_pairs(const Rope& rope, std::int64_t position, float* row) {
  const std::int64_t pairs = rope.width / 2, distance = rope_distance(rope.width, rope.interleaved);
  for (std::int64_t i = 0; i < pairs; ++i) {
    float* x = row + rope_first(i, rope.interleaved);
    const RopePair turned =
        rotate(x[0], x[distance], rope.cos[position * pairs + i], rope.sin[position * pairs + i]);
    x[0] = turned.first;
    x[distance] = turned.second;
  }
}

void transform_key(const AppendKvOptions& o, std::int64_t head, std::int64_t position, float* row) {
  if (o.rope.cos) rotate_pairs(o.rope, position, row);
  if (o.cache.k_mean)
    for (std::int64_t i = 0; i < o.cache.d; ++i) row[i] -= o.cache.k_mean[head * o.cache.d + i];
  if (o.cache.hadamard != 0) hadamard_runs(row, o.cache.d, o.cache.hadamard);
  for (std::int64_t i = 0; i < o.cache.d; ++i)  // a NaN's sign differs between processors
    if (row[i] != row[i]) row[i] = canonical_nan();
}

double mean_score(const double* row, const float* mean, std::int64_t d, double factor) {
  double sum = 0;
  for (std::int64_t i = 0; i < d; ++i) sum += row[i] * static_cast<double>(mean[i]);
  return sum * factor;
}

void quantize_fp8(const float* values, std::int64_t count, float inverse_scale,
                  std::uint8_t* codes) {
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = E4M3::encode(values[i] * inverse_scale, Rounding::nearest_even);
}

}  // namespace microscale
