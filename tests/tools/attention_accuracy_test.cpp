// What storing and rounding may cost attention: floors, and roofs above which a number is too good
// to be true, on the sets of docs/attention.md at half their size or less.
#include <gtest/gtest.h>

#include <string>

#include "attention_accuracy.hpp"

namespace microscale {
namespace {

using namespace bench;

const AttentionScheme& scheme(const std::string& name) {
  static const std::vector<AttentionScheme> all = attention_schemes();
  for (const AttentionScheme& each : all)
    if (each.name == name) return each;
  throw std::runtime_error("no scheme " + name);
}

/// What one scheme keeps on one set.
struct Kept {
  double cosine, too_good;                     // at least, at most
  double relative, worst_row, lse, alpha_off;  // at most, at least, at most, at most
};
void expect_kept(const AttentionSet& set, const std::string& name, const Kept& kept) {
  const AttentionError error = measure_attention(set, scheme(name));
  const std::string where = set.name + ", " + name;
  EXPECT_GE(error.cosine, kept.cosine) << where;
  EXPECT_LE(error.cosine, kept.too_good) << where;
  EXPECT_LE(error.relative, kept.relative) << where;
  EXPECT_GE(error.worst_row, kept.worst_row) << where;
  EXPECT_LE(error.lse, kept.lse) << where;
  EXPECT_NEAR(error.alpha, 1, kept.alpha_off) << where;
}

TEST(AttentionAccuracy, keeps_its_floors_on_independent_values) {
  const AttentionSet set = iid_set(512, 1);
  expect_kept(set, "storage NVFP4, smoothed K", {0.991, 0.997, 0.125, 0.984, 0.03, 0.02});
  expect_kept(set, "two terms NVFP4, smoothed K", {0.9905, 0.997, 0.125, 0.984, 0.03, 0.02});
  expect_kept(set, "one term NVFP4, smoothed K", {0.981, 0.990, 0.19, 0.96, 0.075, 0.03});
  expect_kept(set, "one term MXFP8, smoothed K", {0.998, 0.9995, 0.06, 0.996, 0.025, 0.01});
  expect_kept(set, "storage MXFP4", {0.985, 0.991, 0.175, 0.97, 0.04, 0.04});
}

TEST(AttentionAccuracy, keeps_its_floors_on_outliers) {
  const AttentionSet set = outlier_set(512, 2);
  expect_kept(set, "storage NVFP4, smoothed K", {0.991, 0.997, 0.125, 0.97, 0.13, 0.03});
  expect_kept(set, "two terms NVFP4, smoothed K", {0.991, 0.997, 0.125, 0.97, 0.13, 0.03});
  expect_kept(set, "one term MXFP8, smoothed K", {0.996, 0.9995, 0.06, 0.99, 0.06, 0.01});
  // Smoothing is worth its vector: without it the error is larger by a sixth or more.
  EXPECT_GT(measure_attention(set, scheme("storage NVFP4")).relative,
            1.15 * measure_attention(set, scheme("storage NVFP4, smoothed K")).relative);
}

TEST(AttentionAccuracy, keeps_its_floors_on_block_means) {
  const AttentionSet set = block_mean_set(384, 3);
  expect_kept(set, "storage NVFP4, smoothed K", {0.985, 0.995, 0.165, 0.96, 0.11, 0.04});
  expect_kept(set, "storage NVFP4", {0.95, 0.98, 0.27, 0.90, 0.19, 0.03});
}

TEST(AttentionAccuracy, survives_a_sink) {
  const AttentionSet set = sink_set(32, 1024, 4);
  expect_kept(set, "one term NVFP4, smoothed K", {0.999, 1, 0.13, 0.999, 0.14, 0.14});
  expect_kept(set, "two terms NVFP4, smoothed K", {0.999, 1, 0.03, 0.999, 0.04, 0.03});
  expect_kept(set, "one term NVFP4, V along tokens", {0.998, 1, 0.12, 0.997, 0.09, 0.1});
  expect_kept(set, "storage NVFP4, smoothed K", {0.999, 1, 0.02, 0.999, 0.03, 0.02});
}

// 64 x 64, d 128, U[-1, 1], no 1 / sqrt(d): "Building an FP4 Fused Attention Kernel" reports 0.81
// and calls it the format's.
TEST(AttentionAccuracy, is_not_bounded_by_the_article_s_rule) {
  const auto mean = [](KvFormat format, ScaleRule rule) {
    double sum = 0;
    for (unsigned seed = 0; seed < 32; ++seed) {
      AttentionScheme scores{.name = {}, .format = format, .rule = rule, .scores_only = true};
      sum += measure_attention(article_set(seed), scores).cosine;
    }
    return sum / 32;
  };
  const double its_own = mean(KvFormat::mxfp4, ScaleRule::amax_ceil);
  EXPECT_GT(its_own, 0.80);
  EXPECT_LT(its_own, 0.87);
  EXPECT_GE(mean(KvFormat::mxfp4, ScaleRule::rceil), 0.95);
  EXPECT_GE(mean(KvFormat::nvfp4, ScaleRule::nearest), 0.94);
}

TEST(AttentionAccuracy, is_exact_on_representable_inputs) {
  AttentionSet set = iid_set(64, 5);
  constexpr float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (std::size_t i = 0; i < set.k.size(); ++i) {
    const std::size_t code = i % 16 == 0 ? 7 : (i * 2654435761u >> 7) % 8;  // each block has a 6
    set.q[i] = values[(i * 40503u >> 5) % 8] * (i % 3 ? 0.25f : -0.25f);
    set.k[i] = i % 5 ? values[code] : -values[code];
    set.v[i] = i % 7 ? values[code] : -values[code];
  }
  for (const char* name : {"storage NVFP4", "storage MXFP4", "storage MXFP8"}) {
    const AttentionError error = measure_attention(set, scheme(name), {.backend = Backend::avx2});
    EXPECT_LT(error.relative, 2e-6) << name;  // FP32 sums
    EXPECT_LT(error.lse, 1e-5) << name;
    const AttentionError fastest = measure_attention(set, scheme(name));
    EXPECT_LT(fastest.relative, 1e-3) << name << ": AMX rounds p to BF16";
    EXPECT_GT(fastest.cosine, 1 - 1e-6) << name;
    EXPECT_LT(fastest.lse, 1e-5) << name;
  }
}

}  // namespace
}  // namespace microscale
