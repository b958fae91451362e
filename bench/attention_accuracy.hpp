// What each way of storing and rounding costs attention in accuracy, on sets that are made like
// those it meets: docs/attention.md has the table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "microscale/attention.hpp"

namespace microscale::bench {

/// One head; q_len queries, kv_len keys, rows of d values that BF16 holds.
struct AttentionSet {
  std::string name;
  std::int64_t q_len = 0, kv_len = 0, d = 128;
  bool causal = false;
  float scale = 0;
  std::vector<float> q{}, k{}, v{};
};

/// iid: N(0, 1). outliers: K has a mean per channel and four channels of several times the others'
/// size, causal. means: blocks of 128 tokens share a mean, and K has one per channel. sink: token 0
/// is 7 above the others' logits and its value small, so that what counts is the sum of the many
/// others; V has a mean per channel.
AttentionSet iid_set(std::int64_t tokens, unsigned seed);
AttentionSet outlier_set(std::int64_t tokens, unsigned seed);
AttentionSet block_mean_set(std::int64_t tokens, unsigned seed);
AttentionSet sink_set(std::int64_t queries, std::int64_t tokens, unsigned seed);
/// The test of "Building an FP4 Fused Attention Kernel": 64 queries and keys, U[-1, 1], scale 1.
AttentionSet article_set(unsigned seed);

/// How k and v are kept, and what the call rounds.
struct AttentionScheme {
  std::string name;
  /// In a cache of this format, or (dense) as they are, for the call to round.
  bool dense = false;
  KvFormat format = KvFormat::nvfp4;
  ScaleRule rule = ScaleRule::search;
  bool smooth = false;  // K without its mean per channel
  int hadamard = 0;
  AttentionNumerics numerics{};
  /// q in blocks of the cache's format beforehand, by the same rule, and v left dense (BF16): the
  /// products of that article's kernel.
  bool scores_only = false;
};

/// Against attention on the set as it is, in FP64.
struct AttentionError {
  double cosine = 0;     // of all elements together
  double relative = 0;   // ||o - exact|| / ||exact||
  double alpha = 0;      // <o, exact> / <exact, exact>: 1 but for a wrong factor
  double worst_row = 1;  // least cosine of one query
  double lse = 0;        // largest |error| of the log-sum-exp
};
AttentionError measure_attention(const AttentionSet& set, const AttentionScheme& scheme,
                                 const Context& context = {});

/// The rows of the table.
std::vector<AttentionScheme> attention_schemes();

}  // namespace microscale::bench
