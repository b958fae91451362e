// Attention over a cache: what its codes decode to, in one softmax with BF16 copies, mean and
// Hadamard; the same bytes however the cache lies.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "formats/elements.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "support/caches.hpp"
#include "support/guarded.hpp"

namespace microscale {
namespace {

using test::CacheLayout;
using test::Heads;
using test::OwnedCache;

constexpr std::int64_t batch = 2, tokens = 75, q_heads = 4, kv_heads = 2;

struct Features {
  KvFormat format = KvFormat::nvfp4;
  CacheLayout layout = CacheLayout::records;
  std::int64_t d = 64, q_len = 3, first = 0, recent = 0;
  bool mean = false, sinks = false, causal = true;
  int hadamard = 0;
  std::int64_t window = 0;
  float softcap = 0;
  int splits = 0;
};

// A row of codes as exact numbers.
std::vector<double> decoded_row(const OwnedCache& cache, bool value, std::int64_t b, std::int64_t h,
                                std::int64_t position) {
  const KvCache& c = cache.view;
  const std::uint8_t* codes = cache.row(value ? c.v_codes : c.k_codes, b, h, position);
  const double global = (value ? c.v_global_scale : c.k_global_scale).value();
  std::vector<double> row;
  const int block = kv_page::block(c.format);
  for (std::int64_t i = 0; i < c.d; ++i) {
    const double code = kv_page::code_bits(c.format) == 4
                            ? E2M1::decode((codes[i / 2] >> (i % 2 * 4)) & 15)
                            : E4M3::decode(codes[i]);
    double scale = global;
    if (block > 0) {
      const std::uint8_t byte =
          cache.row(value ? c.v_scales : c.k_scales, b, h, position)[i / block];
      scale = block == 16 ? UE4M3::decode(byte) * global : std::ldexp(1.0, byte - 127);
    }
    row.push_back(code * scale);
  }
  return row;
}

// The orthonormal Hadamard transform of runs of 16, in FP64.
void transform(std::vector<double>& row) {
  std::vector<double> out(row.size());
  for (std::size_t j = 0; j < row.size(); ++j)
    for (std::size_t i = 0; i < 16; ++i)
      out[j] += (__builtin_popcount(static_cast<unsigned>(i & j)) % 2 ? -0.25 : 0.25) *
                row[j / 16 * 16 + i];
  row = out;
}

void fill(OwnedCache& cache, const Features& f, const Heads& k, const Heads& v) {
  cache.view.k_global_scale = cache.view.v_global_scale = 1.0f;
  if (f.format == KvFormat::nvfp4 || f.format == KvFormat::fp8) {
    cache.view.k_global_scale = 0.02f;
    cache.view.v_global_scale = 0.03f;
  }
  if (f.mean) {
    std::vector<float> mean;
    for (std::int64_t i = 0; i < kv_heads * f.d; ++i)
      mean.push_back(std::sin(static_cast<float>(i)));
    cache.set_mean(mean);
  }
  cache.view.hadamard = f.hadamard;
  cache.keep(f.first, f.recent);
  cache.append(k, v, 0, 40);
  cache.append(k, v, 40, tokens);
}

struct Output {
  Heads o;
  std::vector<float> lse;
};

Output run(const OwnedCache& cache, const Features& f, const Heads& q,
           const std::vector<float>& sinks, Backend backend) {
  Output out{Heads(DType::f32, batch, f.q_len, q_heads, f.d),
             std::vector<float>(static_cast<std::size_t>(batch * f.q_len * q_heads))};
  attention({.q = q.view(),
             .cache = cache.view,
             .output = out.o.mutable_view(),
             .log_sum_exp = out.lse.data(),
             .causal = f.causal,
             .window = f.window,
             .softcap = f.softcap,
             .sinks = f.sinks ? sinks.data() : nullptr,
             .splits = f.splits},
            {.backend = backend});
  return out;
}

void expect_features(const Features& f) {
  const Heads q = test::random_heads(DType::bf16, batch, f.q_len, q_heads, f.d, 1),
              k = test::random_heads(DType::bf16, batch, tokens, kv_heads, f.d, 2),
              v = test::random_heads(DType::bf16, batch, tokens, kv_heads, f.d, 3);
  const std::vector<float> sinks{0.5f, -1.0f, 2.0f, 0.0f};
  OwnedCache cache(f.format, f.layout, batch, kv_heads, f.d, 16, 80);
  fill(cache, f, k, v);
  for (const Backend backend : test::host_backends()) {
    const Output got = run(cache, f, q, sinks, backend);
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < q_heads; ++h) {
        const std::int64_t g = h / (q_heads / kv_heads);
        test::OracleRow row;
        for (std::int64_t p = 0; p < tokens; ++p) {
          row.k.push_back(decoded_row(cache, false, b, g, p));
          row.v.push_back(decoded_row(cache, true, b, g, p));
          if (p < f.first || p >= tokens - f.recent) {  // a copy in BF16
            const bool is_first = p < f.first;
            const std::int64_t at = is_first ? ((b * f.first + p) * kv_heads + g) * f.d
                                             : ((b * f.recent + p % f.recent) * kv_heads + g) * f.d;
            for (std::int64_t i = 0; i < f.d; ++i) {
              const auto from = static_cast<std::size_t>(at + i), to = static_cast<std::size_t>(i);
              row.k.back()[to] = bf16_to_float((is_first ? cache.first_k : cache.recent_k)[from]);
              row.v.back()[to] = bf16_to_float((is_first ? cache.first_v : cache.recent_v)[from]);
            }
          }
          // Back to what K was: the transform is its own inverse, the mean comes on.
          if (f.hadamard) transform(row.k.back());
          for (std::int64_t i = 0; f.mean && i < f.d; ++i)
            row.k.back()[static_cast<std::size_t>(i)] +=
                cache.mean[static_cast<std::size_t>(g * f.d + i)];
        }
        row.scale = 1 / std::sqrt(static_cast<double>(f.d));
        row.causal = f.causal;
        row.window = f.window;
        row.softcap = f.softcap;
        if (f.sinks) row.sink = sinks[static_cast<std::size_t>(h)];
        for (std::int64_t t = 0; t < f.q_len; ++t) {
          row.q = test::head_rows(q, b, h, t, 1)[0];
          row.position = tokens - f.q_len + t;
          const test::OracleResult want = test::oracle(row);
          test::AttentionBound bound(want, tokens, f.d, backend);
          if (f.hadamard || f.mean) bound.score += 6 * 0x1p-24 * 4 * want.a;  // q's transform, FP32
          test::expect_row(want, got.o, b, t, h, bound, std::string(to_string(backend)));
          EXPECT_NEAR(got.lse[static_cast<std::size_t>((b * f.q_len + t) * q_heads + h)], want.lse,
                      bound.lse(want));
        }
      }
  }
}

TEST(AttentionCache, decodes_every_format_and_size) {
  for (const KvFormat format : test::kv_formats)
    for (const std::int64_t d : {32, 64, 96, 128, 256}) expect_features({.format = format, .d = d});
}

// Rows that end with the memory they lie in, of heads that fill no whole step of a decoder.
TEST(AttentionCache, reads_nothing_beyond_a_row) {
  constexpr std::int64_t n = 16;
  for (const KvFormat format : test::kv_formats)
    for (const std::int64_t d : {32, 64, 96, 160}) {
      OwnedCache cache(format, CacheLayout::nhd, 1, kv_heads, d, n, n);
      cache.table[0] = static_cast<std::int32_t>(cache.view.pages - 1);
      const Heads k = test::random_heads(DType::bf16, 1, n, kv_heads, d, 1),
                  v = test::random_heads(DType::bf16, 1, n, kv_heads, d, 2),
                  q = test::random_heads(DType::bf16, 1, 1, q_heads, d, 3);
      cache.append(k, v, 0, n);
      const test::Guarded parts[] = {test::Guarded(cache.k_codes), test::Guarded(cache.k_scales),
                                     test::Guarded(cache.v_codes), test::Guarded(cache.v_scales)};
      for (const Backend backend : test::host_backends()) {
        const auto attend = [&](const KvCache& from) {
          std::vector<float> output(static_cast<std::size_t>(q_heads * d));
          attention({.q = q.view(),
                     .cache = from,
                     .output = {output.data(), DType::f32, 1, 1, q_heads, d}},
                    {.backend = backend});
          return output;
        };
        KvCache guarded = cache.view;
        guarded.k_codes.data = parts[0].data();
        guarded.v_codes.data = parts[2].data();
        if (guarded.k_scales.data != nullptr) {
          guarded.k_scales.data = parts[1].data();
          guarded.v_scales.data = parts[3].data();
        }
        EXPECT_EQ(attend(guarded), attend(cache.view)) << to_string(backend) << " d " << d;
      }
    }
}

TEST(AttentionCache, reads_copies_within_the_one_softmax) {
  for (const std::int64_t first : {0, 4})
    for (const std::int64_t recent : {0, 7, 33, 75, 100})
      expect_features({.first = first, .recent = recent});
  expect_features({.format = KvFormat::fp8, .first = 80, .recent = 5});
  expect_features(
      {.format = KvFormat::mxfp4, .first = 16, .recent = 16, .window = 30, .splits = 2});
}

TEST(AttentionCache, gives_the_result_of_k_with_its_mean) {
  expect_features({.mean = true});
  expect_features({.mean = true, .softcap = 2.0f});
  expect_features({.mean = true, .sinks = true});
  expect_features({.format = KvFormat::mxfp8,
                   .first = 4,
                   .recent = 20,
                   .mean = true,
                   .sinks = true,
                   .hadamard = 16,
                   .window = 40,
                   .softcap = 5.0f,
                   .splits = 3});
}

TEST(AttentionCache, transforms_queries_as_keys_were) {
  for (const KvFormat format : test::kv_formats)
    expect_features({.format = format, .d = 96, .hadamard = 16});
}

TEST(AttentionCache, is_the_same_bytes_in_every_layout) {
  const Heads q = test::random_heads(DType::bf16, batch, 3, q_heads, 64, 1),
              k = test::random_heads(DType::bf16, batch, tokens, kv_heads, 64, 2),
              v = test::random_heads(DType::bf16, batch, tokens, kv_heads, 64, 3);
  for (const Backend backend : test::host_backends())
    for (const KvFormat format : test::kv_formats)
      for (const int splits : {1, 2}) {
        const Features f{.format = format, .first = 3, .recent = 10, .splits = splits};
        OwnedCache contiguous(format, CacheLayout::contiguous, batch, kv_heads, 64, 0, 80);
        fill(contiguous, f, k, v);
        const Output want = run(contiguous, f, q, {}, backend);
        for (const CacheLayout layout :
             {CacheLayout::records, CacheLayout::nhd, CacheLayout::hnd, CacheLayout::joined})
          for (const std::int64_t page : {16, 32, 64}) {
            OwnedCache paged(format, layout, batch, kv_heads, 64, page, 80);
            fill(paged, f, k, v);
            const Output got = run(paged, f, q, {}, backend);
            EXPECT_EQ(got.o.bytes, want.o.bytes) << "pages of " << page;
            EXPECT_EQ(got.lse, want.lse);
          }
      }
}

// Codes and scales of a cache are those of quantize_into: so are the results.
TEST(AttentionCache, is_the_same_bytes_as_block_scaled_operands) {
  const Heads q = test::random_heads(DType::bf16, batch, 3, q_heads, 64, 1),
              k = test::random_heads(DType::bf16, batch, tokens, kv_heads, 64, 2),
              v = test::random_heads(DType::bf16, batch, tokens, kv_heads, 64, 3);
  OwnedCache cache(KvFormat::nvfp4, CacheLayout::records, batch, kv_heads, 64, 16, 80);
  fill(cache, {}, k, v);
  const BlockTensor kb = quantize(
                        {.input = k.rows(), .format = Format::nvfp4, .global_scale = 0.02f}),
                    vb = quantize(
                        {.input = v.rows(), .format = Format::nvfp4, .global_scale = 0.03f});
  for (const Backend backend : test::host_backends()) {
    Heads o(DType::f32, batch, 3, q_heads, 64);
    attention({.q = q.view(),
               .k = BlockHeadsView{kb.view(), batch, tokens, kv_heads},
               .v = BlockHeadsView{vb.view(), batch, tokens, kv_heads},
               .output = o.mutable_view(),
               .causal = true},
              {.backend = backend});
    EXPECT_EQ(run(cache, {}, q, {}, backend).o.bytes, o.bytes);
  }
}

TEST(AttentionCache, has_sequences_of_any_length) {
  const Heads q = test::random_heads(DType::bf16, 1, 9, q_heads, 32, 1),
              k = test::random_heads(DType::bf16, 3, 60, kv_heads, 32, 2),
              v = test::random_heads(DType::bf16, 3, 60, kv_heads, 32, 3);
  OwnedCache cache(KvFormat::mxfp4, CacheLayout::records, 3, kv_heads, 32, 16, 64);
  cache.append(k, v, 0, 60);
  cache.lengths = {60, 0, 17};
  cache.table[static_cast<std::size_t>(2 * cache.view.max_pages + 2)] = 1 << 30;  // never read
  const std::vector<std::int32_t> offsets{0, 5, 6, 9};
  for (const Backend backend : test::host_backends()) {
    Heads o(DType::f32, 1, 9, q_heads, 32), one(DType::f32, 1, 3, q_heads, 32);
    std::vector<float> lse(9 * q_heads);
    attention({.q = q.view(),
               .cache = cache.view,
               .output = o.mutable_view(),
               .log_sum_exp = lse.data(),
               .causal = true,
               .q_offsets = offsets.data(),
               .sequences = 3,
               .splits = 1},
              {.backend = backend});
    for (std::int64_t i = 0; i < 32; ++i) EXPECT_EQ(o.at(0, 5, 1, i), 0.0f);  // of an empty one
    EXPECT_EQ(lse[5 * q_heads], -INFINITY);
    KvCache last = cache.view;  // the third alone
    last.batch = 1;
    last.lengths += 2;
    last.page_table += 2 * last.max_pages;
    HeadsView query = q.view();
    query.data = q.bytes.data() + 6 * q_heads * 32 * 2;
    query.tokens = 3;
    attention(
        {.q = query, .cache = last, .output = one.mutable_view(), .causal = true, .splits = 1},
        {.backend = backend});
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t i = 0; i < 32; ++i) EXPECT_EQ(o.at(0, 6 + t, 3, i), one.at(0, t, 3, i));
  }
}

TEST(AttentionCache, refuses_pages_that_are_none_but_where_nothing_is_read) {
  const Heads q = test::random_heads(DType::bf16, batch, 1, q_heads, 64, 1),
              k = test::random_heads(DType::bf16, batch, tokens, kv_heads, 64, 2);
  for (const Backend backend : test::host_backends()) {
    OwnedCache cache(KvFormat::nvfp4, CacheLayout::records, batch, kv_heads, 64, 16, 80);
    fill(cache, {}, k, k);
    const Features windowed{.q_len = 1, .window = 20};
    const Output want = run(cache, windowed, q, {}, backend);
    for (const std::int32_t page : {-1, static_cast<std::int32_t>(cache.view.pages), 1 << 30}) {
      const std::int32_t kept = cache.table[2];
      cache.table[2] = page;
      EXPECT_EQ(run(cache, windowed, q, {}, backend).o.bytes, want.o.bytes);
      EXPECT_THROW(run(cache, {.q_len = 1}, q, {}, backend), Error);
      cache.table[2] = kept;
    }
  }
}

}  // namespace
}  // namespace microscale
