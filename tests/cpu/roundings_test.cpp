// The counts of roundings that kernels state of themselves are those that the documents promise,
// and tests hold results to: what a kernel states cannot grow unseen.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "seam/attention_kernels.hpp"
#include "seam/kernel_table.hpp"
#include "seam/matmul_kernels.hpp"
#include "support/paths.hpp"
#include "support/present.hpp"
#include "support/roundings.hpp"

namespace microscale {
namespace {

constexpr std::int64_t depths[] = {16,  32,  48,  64,   80,   96,   112,   128,  144,
                                   160, 256, 416, 1024, 1040, 4096, 14336, 81920};

// AMX's counts are sums of integers, so they are asked wherever its code's other instructions run.
std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> all = test::present({&avx2_kernels, &avx512_kernels});
  if (avx512_kernels.available()) all.push_back(&amx_kernels);
  return all;
}

TEST(Roundings, of_products_are_the_documents) {
  for (const KernelTable* table : tables())
    for (const std::int64_t k : depths) {
      const std::int64_t stated = table->matmul->roundings(k),
                         promised = test::product_roundings(table->backend, k);
      // "At most" of AVX-512, and so of AMX: of its decoders MXFP8's has four additions a step,
      // FP4's 14 more a row.
      const std::int64_t less = table->backend == Backend::avx2 ? 0 : 14;
      EXPECT_LE(stated, promised) << to_string(table->backend) << ", k " << k;
      EXPECT_GE(stated, promised - less) << to_string(table->backend) << ", k " << k;
    }
  EXPECT_EQ(reference_kernels.matmul->roundings(4096),
            test::product_roundings(Backend::reference, 4096));
}

TEST(Roundings, of_attention_are_the_documents) {
  for (const KernelTable* table : tables())
    for (const std::int64_t keys : depths)
      for (const std::int64_t d : {32, 64, 80, 96, 128, 192, 256}) {
        const AttentionRoundings stated = table->attention->roundings(keys, d);
        const test::AttentionTolerance promised =
            test::attention_roundings(table->backend, keys, d);
        const std::string what =
            fmt::format("{}, {} keys, d {}", to_string(table->backend), keys, d);
        EXPECT_EQ(stated.score, promised.score) << what;
        EXPECT_EQ(stated.output, promised.output) << what;
        if (d <= 64) continue;  // the table states the most of all rows
        EXPECT_EQ(stated.query, promised.query) << what;
        EXPECT_EQ(stated.weight, promised.weight) << what;
      }
}

/// The line of a document that begins with `begin`; empty: none, or several.
std::string line_of(const char* document, const std::string& begin) {
  std::ifstream file((testing::test_data() + "/../docs/") + document);
  std::string line, found;
  int lines = 0;
  while (std::getline(file, line))
    if (line.starts_with(begin)) found = line, ++lines;
  return lines == 1 ? found : "";
}

// support/roundings.hpp is a copy of these; a change of theirs is one of its, too.
TEST(Roundings, stand_in_the_documents) {
  constexpr struct {
    const char *document, *begin, *end;
  } promises[] = {
      {"matmul.md", "| avx2, up to 15 rows |", "| 2 ceil(k / 64) + 18 |"},
      {"matmul.md", "| avx512, up to 15 rows |", "| at most 4 ceil(k / 128) + 22 |"},
      {"matmul.md", "| both, from 16 rows on |", "| min(k, 128) + ceil(k / 128) |"},
      {"matmul.md", "| both, from 16 rows on, FP4 by FP4 |", "| less than that |"},
      {"matmul.md", "| amx |", "| k + 8, at least avx512's |"},
      {"attention.md", "| avx2 | 0 |",
       "| 0 | 0 | ceil(d / 64) * 8 + 10 | 2 floor(keys / 32) + 44 |"},
      {"attention.md", "| avx512 | 0 |",
       "| 0 | 0 | ceil(d / 128) * 8 + 10 | 2 floor(keys / 32) + 44 |"},
      {"attention.md", "| amx, keys and values exact in BF16 |",
       "| 3 d + 12 | 2^16 + 130 (floor(keys / 128) + 2) + 9 |"},
  };
  for (const auto& promise : promises) {
    const std::string line = line_of(promise.document, promise.begin);
    EXPECT_TRUE(line.ends_with(promise.end))
        << promise.document << ": " << promise.begin << " has " << line;
  }
}

}  // namespace
}  // namespace microscale
