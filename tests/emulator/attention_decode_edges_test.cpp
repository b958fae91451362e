// The kernels that decode from a cache at the ends of what its scales, widths and page tables may
// be.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/device/kernel_images.hpp"
#include "support/decode_calls.hpp"

namespace microscale::emulator {
namespace {

bool of_powers(KvFormat format) { return format == KvFormat::mxfp4 || format == KvFormat::mxfp8; }

Heads times(Heads h, float factor) {
  for (std::int64_t i = 0; i < h.batch * h.tokens * h.heads * h.d; ++i)
    store_dense(load_dense(h.bytes.data(), h.dtype, i) * factor, h.bytes.data(), h.dtype, i);
  return h;
}

class AttentionDecodeEdges : public ::testing::TestWithParam<KvFormat> {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

// Widths of one kernel and those that end in zeros; rows of both orders of values; references of
// scales of any size. Scales come in pairs, of two tokens or of two blocks.
TEST_P(AttentionDecodeEdges, a_block_that_is_nan_leaves_those_beside_it) {
  for (const std::int64_t d : {64, 96, 128, 160, 256})
    for (const std::int64_t nan : {5, 40})
      for (const std::int64_t rows : {3, 8})
        for (const float size : {1.0f, 0x1p-100f, 0x1p-118f}) {
          if (size != 1.0f && (!of_powers(GetParam()) || d > 128)) continue;
          const Heads k = test::random_heads(DType::bf16, 1, 50, 1, d, 1),
                      q = test::random_heads(DType::bf16, 1, 1, rows, d, 3);
          DecodeResult results[2];
          for (const bool with : {false, true}) {
            OwnedCache cache(GetParam(), CacheLayout::records, 1, 1, d, 16, 50);
            Heads v = times(test::random_heads(DType::bf16, 1, 50, 1, d, 2), size);
            v.set(0, 20, 0, nan, with ? NAN : 0.0f);
            cache.append(k, v, 0, 50);
            results[with] = attend(cache, q);
          }
          for (std::int64_t h = 0; h < rows; ++h)
            for (std::int64_t i = 0; i < d; ++i) {
              if (i / 32 == nan / 32) continue;
              EXPECT_EQ(results[1].at(0, 0, h, i), results[0].at(0, 0, h, i))
                  << d << " " << nan << " " << i << " " << size;
            }
        }
}

// All scales near one end of E8M0, byte 0 included, of values and of keys.
TEST_P(AttentionDecodeEdges, scales_of_any_size_count_for_what_they_are) {
  if (!of_powers(GetParam())) return;
  constexpr std::int64_t tokens = 40, d = 64;
  const Heads keys = test::random_heads(DType::f32, 1, tokens, 1, d, 1),
              values = test::random_heads(DType::f32, 1, tokens, 1, d, 2);
  for (const std::int64_t rows : {4, 8}) {
    const Heads queries = test::random_heads(DType::f32, 1, 1, rows, d, 3, 0.25f);
    for (const int power : {-127, -126, -125, -124, -122, -120, -118, -100, 0, 60, 100}) {
      OwnedCache cache(GetParam(), CacheLayout::records, 1, 1, d, 16, tokens);
      const float size = std::ldexp(1.0f, power), inverse = std::ldexp(1.0f, -power / 2);
      cache.append(times(keys, size), times(values, size), 0, tokens);
      const Heads q = times(times(queries, inverse), inverse);
      const DecodeResult r = attend(cache, q);
      const Heads want = on_a_host(cache, q);
      double largest = 0;
      for (std::int64_t i = 0; i < rows * d; ++i)
        largest = std::fmax(largest, std::fabs(load_dense(want.bytes.data(), DType::f32, i)));
      ASSERT_GT(largest, 0.05 * size);
      for (std::int64_t h = 0; h < rows; ++h)
        for (std::int64_t i = 0; i < d; ++i)
          EXPECT_NEAR(r.at(0, 0, h, i), want.at(0, 0, h, i), largest * 0x1p-7 + 0x1p-148)
              << power << " " << rows << " " << h << " " << i;
    }
  }
}

// In the order [pages, tokens, heads] a token's scales lie apart from the next one's.
TEST_P(AttentionDecodeEdges, scales_may_lie_anywhere) {
  const Heads k = test::random_heads(DType::f32, 1, 100, 2, 128, 1),
              v = test::random_heads(DType::f32, 1, 100, 2, 128, 2),
              q = test::random_heads(DType::bf16, 1, 1, 8, 128, 3, 0.25f);
  OwnedCache cache(GetParam(), CacheLayout::nhd, 1, 2, 128, 16, 100);
  cache.append(k, v, 0, 100);
  const Heads want = on_a_host(cache, q);
  const DecodeResult r = attend(cache, q);
  for (std::int64_t h = 0; h < 8; ++h)
    for (std::int64_t i = 0; i < 128; ++i)
      EXPECT_NEAR(r.at(0, 0, h, i), want.at(0, 0, h, i), 2e-3) << h << " " << i;
}

TEST_P(AttentionDecodeEdges, caches_may_have_no_pages) {
  KvCache none{.format = GetParam(), .batch = 1, .kv_heads = 1, .d = 128, .page_size = 16};
  const OwnedCache some(GetParam(), CacheLayout::records, 1, 1, 128, 16, 16);
  const Heads q = test::random_heads(DType::bf16, 1, 1, 4, 128, 3);
  const DecodeResult r = attend(some, q, [&](AttentionOptions& o) {
    none.page_table = o.cache->page_table, none.max_pages = 1, none.lengths = o.cache->lengths;
    none.k_global_scale = o.cache->k_global_scale;
    none.v_global_scale = o.cache->v_global_scale;
    o.cache = none;
  });
  for (std::int64_t i = 0; i < 4 * 128; ++i)
    EXPECT_EQ(load_dense(r.o.bytes.data(), DType::f32, i), 0.0f);
}

// Pages that the table does not name are left out wherever they are in a sequence.
TEST_P(AttentionDecodeEdges, absent_pages_are_left_out) {
  for (const std::int64_t page : {16, 32, 64})
    for (const CacheLayout layout : {CacheLayout::records, CacheLayout::hnd})
      for (const std::int64_t d : {128, 96}) {
        const std::int64_t tokens = 9 * page + 5;
        const Heads k = test::random_heads(DType::f32, 1, tokens, 1, d, 1),
                    v = test::random_heads(DType::f32, 1, tokens, 1, d, 2),
                    q = test::random_heads(DType::bf16, 1, 1, 4, d, 3, 0.25f);
        OwnedCache cache(GetParam(), layout, 1, 1, d, page, tokens);
        cache.append(k, v, 0, tokens);
        std::vector<std::int32_t> table = cache.table;
        const auto absent = [](std::int64_t entry) {
          return entry == 1 || entry == 4 || entry == 5 || entry == 9;
        };
        std::vector<std::int64_t> present;
        for (std::int64_t t = 0; t < tokens; ++t)
          if (!absent(t / page))
            present.push_back(t);
          else
            table[static_cast<std::size_t>(t / page)] = t / page % 2 == 0 ? -1 : 1 << 20;
        const auto left = static_cast<std::int64_t>(present.size());
        Heads left_k(DType::f32, 1, left, 1, d), left_v = left_k;
        for (std::int64_t t = 0; t < left; ++t)
          for (std::int64_t i = 0; i < d; ++i) {
            left_k.set(0, t, 0, i, k.at(0, present[static_cast<std::size_t>(t)], 0, i));
            left_v.set(0, t, 0, i, v.at(0, present[static_cast<std::size_t>(t)], 0, i));
          }
        OwnedCache without(GetParam(), layout, 1, 1, d, page, left);
        without.append(left_k, left_v, 0, left);
        const Heads want = on_a_host(without, q);
        for (const int splits : {1, 3}) {
          const DecodeResult r = attend(
              cache, q, [&](AttentionOptions& o) { o.splits = splits; }, table);
          for (std::int64_t h = 0; h < 4; ++h)
            for (std::int64_t i = 0; i < d; ++i)
              EXPECT_NEAR(r.at(0, 0, h, i), want.at(0, 0, h, i), 2e-3)
                  << page << " " << d << " " << splits << " " << h << " " << i;
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Formats, AttentionDecodeEdges, ::testing::ValuesIn(test::kv_formats),
                         kv_format_name);

}  // namespace
}  // namespace microscale::emulator
