// The table of docs/attention.md: what each way of storing and rounding costs in accuracy. Fixed
// seeds: the same numbers every run.
//
//   attention_accuracy_bench [TOKENS]        1024 if not given

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "attention_accuracy.hpp"

namespace microscale::bench {
namespace {

void print_schemes(std::int64_t tokens) {
  const AttentionSet sets[] = {iid_set(tokens, 1), outlier_set(tokens, 2),
                               block_mean_set(tokens, 3), sink_set(128, 4 * tokens, 4)};
  std::printf("| scheme |");
  for (const AttentionSet& set : sets) std::printf(" %s |", set.name.c_str());
  std::printf(" worst row, outliers | alpha - 1, outliers | log-sum-exp, outliers |\n|---");
  for (int i = 0; i < 7; ++i) std::printf("|---");
  std::printf("|\n");
  std::vector<std::string> rest;  // of the second table
  for (const AttentionScheme& scheme : attention_schemes()) {
    std::printf("| %s |", scheme.name.c_str());
    rest.push_back("| " + scheme.name + " |");
    AttentionError outliers;
    for (const AttentionSet& set : sets) {
      const AttentionError error = measure_attention(set, scheme);
      std::printf(" %.5f / %.3f |", error.cosine, error.relative);
      std::fflush(stdout);
      if (set.name == "outliers") {
        outliers = error;
        continue;
      }
      char cell[64];
      std::snprintf(cell, sizeof cell, " %.4f / %+.4f / %.3f |", error.worst_row, error.alpha - 1,
                    error.lse);
      rest.back() += cell;
    }
    std::printf(" %.4f | %+.4f | %.3f |\n", outliers.worst_row, outliers.alpha - 1, outliers.lse);
  }
  std::printf("\n| worst row / alpha - 1 / log-sum-exp |");
  for (const AttentionSet& set : sets)
    if (set.name != "outliers") std::printf(" %s |", set.name.c_str());
  std::printf("\n|---|---|---|---|\n");
  for (const std::string& row : rest) std::printf("%s\n", row.c_str());
}

void print_article() {
  struct Rule {
    const char* name;
    KvFormat format;
    ScaleRule rule;
  };
  std::printf("\n| scales of Q and K, V as it is | mean cosine of 32 seeds |\n|---|---|\n");
  for (const Rule& rule :
       {Rule{"MXFP4, the article's 2^ceil(log2 amax)", KvFormat::mxfp4, ScaleRule::amax_ceil},
        Rule{"MXFP4, floor (OCP)", KvFormat::mxfp4, ScaleRule::floor},
        Rule{"MXFP4, round-up", KvFormat::mxfp4, ScaleRule::rceil},
        Rule{"MXFP4, search", KvFormat::mxfp4, ScaleRule::search},
        Rule{"NVFP4, nearest", KvFormat::nvfp4, ScaleRule::nearest},
        Rule{"NVFP4, 4 over 6", KvFormat::nvfp4, ScaleRule::four_over_six},
        Rule{"NVFP4, search", KvFormat::nvfp4, ScaleRule::search}}) {
    double sum = 0;
    for (unsigned seed = 0; seed < 32; ++seed)
      sum += measure_attention(
                 article_set(seed),
                 {.name = {}, .format = rule.format, .rule = rule.rule, .scores_only = true})
                 .cosine;
    std::printf("| %s | %.4f |\n", rule.name, sum / 32);
  }
}

}  // namespace
}  // namespace microscale::bench

int main(int count, char** arguments) {
  const std::int64_t tokens = count > 1 ? std::atoll(arguments[1]) : 1024;
  if (tokens < 1) {
    std::fprintf(stderr, "attention_accuracy_bench: %s tokens; pass a positive number\n",
                 arguments[1]);
    return 2;
  }
  microscale::bench::print_schemes(tokens);
  microscale::bench::print_article();
}
