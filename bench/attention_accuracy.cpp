#include "attention_accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "formats/half.hpp"
#include "microscale/quantize.hpp"

namespace microscale::bench {
namespace {

float rounded(float value) { return bf16_to_float(float_to_bf16(value)); }

class Source {
 public:
  explicit Source(unsigned seed) : generator_(seed) {}
  float normal() { return normal_(generator_); }
  float uniform() { return uniform_(generator_); }
  std::vector<float> normals(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal();
    return values;
  }

 private:
  std::mt19937 generator_;
  std::normal_distribution<float> normal_;
  std::uniform_real_distribution<float> uniform_{-1.0f, 1.0f};
};

AttentionSet set_of(std::string name, std::int64_t queries, std::int64_t keys, Source& source) {
  AttentionSet set{.name = std::move(name), .q_len = queries, .kv_len = keys};
  set.scale = 1 / std::sqrt(static_cast<float>(set.d));
  set.q = source.normals(queries * set.d);
  set.k = source.normals(keys * set.d);
  set.v = source.normals(keys * set.d);
  return set;
}

AttentionSet finished(AttentionSet set) {
  for (std::vector<float>* side : {&set.q, &set.k, &set.v})
    for (float& value : *side) value = rounded(value);
  return set;
}

float& at(std::vector<float>& rows, std::int64_t row, std::int64_t d, std::int64_t i) {
  return rows[static_cast<std::size_t>(row * d + i)];
}

HeadsView view(const std::vector<float>& rows, std::int64_t tokens, std::int64_t d) {
  return {.data = rows.data(), .batch = 1, .tokens = tokens, .heads = 1, .d = d};
}

struct Output {
  std::vector<float> o, lse;
};

Output outputs_of(const AttentionSet& set) {
  return {std::vector<float>(set.q.size()),
          std::vector<float>(static_cast<std::size_t>(set.q_len))};
}

AttentionOptions call_on(const AttentionSet& set, Output& output) {
  AttentionOptions call{.q = view(set.q, set.q_len, set.d), .output = {}};
  call.output = {.data = output.o.data(), .batch = 1, .tokens = set.q_len, .heads = 1, .d = set.d};
  call.log_sum_exp = output.lse.data();
  call.scale = set.scale;
  call.causal = set.causal;
  return call;
}

// A contiguous cache of the set's keys.
struct Cached {
  std::vector<std::uint8_t> memory;
  std::vector<float> mean;
  std::int32_t length = 0;
  KvCache cache;

  Cached(const AttentionSet& set, const AttentionScheme& scheme)
      : length(static_cast<std::int32_t>(set.kv_len)) {
    const KvPageShape shape{scheme.format, 1, set.d, (set.kv_len + 15) / 16 * 16};
    constexpr std::size_t alignment = 16;
    memory.resize(static_cast<std::size_t>(shape.page_bytes()) + alignment);
    void* start = memory.data();
    std::size_t room = memory.size();
    std::align(alignment, static_cast<std::size_t>(shape.page_bytes()), start, room);
    cache = kv_cache_of_records(
        shape, {static_cast<std::uint8_t*>(start), static_cast<std::size_t>(shape.page_bytes())});
    cache.batch = 1;
    cache.lengths = &length;
    cache.hadamard = scheme.hadamard;
    std::vector<float> k = set.k;
    if (scheme.smooth) {
      mean.resize(static_cast<std::size_t>(set.d));
      for (std::int64_t i = 0; i < set.d; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < set.kv_len; ++j) sum += at(k, j, set.d, i);
        mean[static_cast<std::size_t>(i)] =
            static_cast<float>(sum / static_cast<double>(set.kv_len));
        for (std::int64_t j = 0; j < set.kv_len; ++j)
          at(k, j, set.d, i) -= mean[static_cast<std::size_t>(i)];
      }
      cache.k_mean = mean.data();
    }
    cache.k_global_scale = global(scheme, k);
    cache.v_global_scale = global(scheme, set.v);
    AppendKvOptions append{
        .cache = cache, .k = view(set.k, set.kv_len, set.d), .v = view(set.v, set.kv_len, set.d)};
    if (scheme.format != KvFormat::fp8) append.numerics.scale_rule = scheme.rule;
    append_kv(append);
  }

  static float global(const AttentionScheme& scheme, const std::vector<float>& values) {
    float amax = 0;
    for (const float value : values) amax = std::max(amax, std::fabs(value));
    if (scheme.hadamard != 0) amax *= 2;  // a transform of 16 may gather, and seldom does
    if (scheme.format == KvFormat::nvfp4) return nvfp4_global_scale(amax);
    return scheme.format == KvFormat::fp8 ? amax / 448 : 1.0f;
  }
};

double cosine_of(double dot, double a, double b) {
  return a > 0 && b > 0 ? dot / std::sqrt(a * b) : 1;
}

AttentionError compare(const AttentionSet& set, const Output& exact, const Output& got) {
  AttentionError error;
  double dot = 0, want_energy = 0, got_energy = 0, difference = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(set.q_len); ++row) {
    double row_dot = 0, row_want = 0, row_got = 0;
    for (std::size_t i = row * static_cast<std::size_t>(set.d);
         i < (row + 1) * static_cast<std::size_t>(set.d); ++i) {
      const double want = exact.o[i], value = got.o[i];
      row_dot += want * value, row_want += want * want, row_got += value * value;
      difference += (value - want) * (value - want);
    }
    dot += row_dot, want_energy += row_want, got_energy += row_got;
    error.worst_row = std::min(error.worst_row, cosine_of(row_dot, row_want, row_got));
    error.lse = std::max(error.lse, std::fabs(static_cast<double>(got.lse[row]) - exact.lse[row]));
  }
  error.cosine = cosine_of(dot, want_energy, got_energy);
  error.relative = std::sqrt(difference / want_energy);
  error.alpha = dot / want_energy;
  return error;
}

}  // namespace

AttentionSet iid_set(std::int64_t tokens, unsigned seed) {
  Source source(seed);
  return finished(set_of("iid", tokens, tokens, source));
}

AttentionSet outlier_set(std::int64_t tokens, unsigned seed) {
  Source source(seed);
  AttentionSet set = set_of("outliers", tokens, tokens, source);
  set.causal = true;
  for (std::int64_t i = 0; i < set.d; ++i) {
    const bool outlier = i % 32 == 7;
    const float mean = (outlier ? 6.0f : 0.7f) * source.normal(), size = outlier ? 2.5f : 1.0f;
    for (std::int64_t j = 0; j < tokens; ++j)
      at(set.k, j, set.d, i) = mean + size * at(set.k, j, set.d, i);
  }
  return finished(std::move(set));
}

AttentionSet block_mean_set(std::int64_t tokens, unsigned seed) {
  Source source(seed);
  AttentionSet set = set_of("means", tokens, tokens, source);
  const std::vector<float> channel = source.normals(set.d);
  for (std::int64_t block = 0; block < tokens; block += 128) {
    const std::vector<float> q = source.normals(set.d), k = source.normals(set.d);
    for (std::int64_t j = block; j < std::min(block + 128, tokens); ++j)
      for (std::int64_t i = 0; i < set.d; ++i) {
        const auto c = static_cast<std::size_t>(i);
        at(set.q, j, set.d, i) += q[c];
        at(set.k, j, set.d, i) += 0.5f * k[c] + 2.0f * channel[c];
      }
  }
  return finished(std::move(set));
}

AttentionSet sink_set(std::int64_t queries, std::int64_t tokens, unsigned seed) {
  Source source(seed);
  AttentionSet set = set_of("sink", queries, tokens, source);
  constexpr float common = 4,
                  logits = 7;  // of every query in channel 0; of token 0 above the others
  for (std::int64_t j = 0; j < queries; ++j) at(set.q, j, set.d, 0) = common;
  for (std::int64_t i = 0; i < set.d; ++i)
    at(set.k, 0, set.d, i) = i == 0 ? logits / (set.scale * common) : 0.0f;
  for (std::int64_t j = 1; j < tokens; ++j) at(set.k, j, set.d, 0) = 0;
  for (std::int64_t i = 0; i < set.d; ++i) {
    const float mean = source.normal();
    at(set.v, 0, set.d, i) *= 0.1f;
    for (std::int64_t j = 1; j < tokens; ++j) at(set.v, j, set.d, i) += mean;
  }
  return finished(std::move(set));
}

AttentionSet article_set(unsigned seed) {
  Source source(seed);
  AttentionSet set = set_of("article", 64, 64, source);
  set.scale = 1;
  for (std::vector<float>* side : {&set.q, &set.k, &set.v})
    for (float& value : *side) value = source.uniform();
  return finished(std::move(set));
}

AttentionError measure_attention(const AttentionSet& set, const AttentionScheme& scheme,
                                 const Context& context) {
  Output exact = outputs_of(set), got = outputs_of(set);
  AttentionOptions call = call_on(set, exact);
  call.k = view(set.k, set.kv_len, set.d);
  call.v = view(set.v, set.kv_len, set.d);
  attention(call, {.backend = Backend::reference});

  call = call_on(set, got);
  call.numerics = scheme.numerics;
  BlockTensor q, k;
  std::unique_ptr<Cached> cached;
  if (scheme.scores_only) {
    const auto blocks = [&](const std::vector<float>& rows, std::int64_t tokens) {
      QuantizeOptions o{.input = {rows.data(), DType::f32, tokens, set.d, set.d},
                        .format = scheme.format == KvFormat::nvfp4 ? Format::nvfp4 : Format::mxfp4};
      o.numerics.scale_rule = scheme.rule;
      return quantize(o);
    };
    q = blocks(set.q, set.q_len);
    k = blocks(set.k, set.kv_len);
    call.q = BlockHeadsView{q.view(), 1, set.q_len, 1};
    call.k = BlockHeadsView{k.view(), 1, set.kv_len, 1};
    call.v = view(set.v, set.kv_len, set.d);
  } else if (scheme.dense) {
    call.k = view(set.k, set.kv_len, set.d);
    call.v = view(set.v, set.kv_len, set.d);
  } else {
    cached = std::make_unique<Cached>(set, scheme);
    call.cache = cached->cache;
  }
  attention(call, context);
  return compare(set, exact, got);
}

std::vector<AttentionScheme> attention_schemes() {
  using enum AttentionAccuracy;
  const AttentionNumerics one{.accuracy = one_term}, two{.accuracy = two_term};
  AttentionNumerics one_fp8 = one, tokens = one, tokens_two = two, mx = one, mxfp8 = one;
  one_fp8.probabilities = ProbabilityRule::fp8;
  tokens.v_along_tokens = tokens_two.v_along_tokens = true;
  mx.format = Format::mxfp4;
  return {
      {.name = "storage NVFP4, nearest scales", .rule = ScaleRule::nearest},
      {.name = "storage NVFP4, 4 over 6", .rule = ScaleRule::four_over_six},
      {.name = "storage NVFP4"},
      {.name = "storage NVFP4, smoothed K", .smooth = true},
      {.name = "storage NVFP4, smoothed K, Hadamard", .smooth = true, .hadamard = 16},
      {.name = "storage MXFP4, floor scales", .format = KvFormat::mxfp4, .rule = ScaleRule::floor},
      {.name = "storage MXFP4, round-up scales",
       .format = KvFormat::mxfp4,
       .rule = ScaleRule::rceil},
      {.name = "storage MXFP4", .format = KvFormat::mxfp4},
      {.name = "storage MXFP4, smoothed K", .format = KvFormat::mxfp4, .smooth = true},
      {.name = "storage MXFP4, smoothed K, Hadamard",
       .format = KvFormat::mxfp4,
       .smooth = true,
       .hadamard = 16},
      {.name = "storage MXFP8", .format = KvFormat::mxfp8},
      {.name = "storage FP8", .format = KvFormat::fp8},
      {.name = "one term NVFP4, smoothed K", .smooth = true, .numerics = one},
      {.name = "one term NVFP4, smoothed K, P in FP8", .smooth = true, .numerics = one_fp8},
      {.name = "two terms NVFP4, smoothed K", .smooth = true, .numerics = two},
      {.name = "one term NVFP4, V along tokens", .dense = true, .numerics = tokens},
      {.name = "two terms NVFP4, V along tokens", .dense = true, .numerics = tokens_two},
      {.name = "one term MXFP4, smoothed K",
       .format = KvFormat::mxfp4,
       .smooth = true,
       .numerics = mx},
      {.name = "one term MXFP8, smoothed K",
       .format = KvFormat::mxfp8,
       .smooth = true,
       .numerics = mxfp8},
  };
}

}  // namespace microscale::bench
