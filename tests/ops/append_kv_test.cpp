// append_kv: where tokens go, and that their bytes are the quantizers'.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "formats/elements.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "reference/kv_rows.hpp"
#include "support/caches.hpp"

namespace microscale {
namespace {

using test::CacheLayout;
using test::Heads;
using test::OwnedCache;

Format format_of(KvFormat format) {
  return format == KvFormat::nvfp4   ? Format::nvfp4
         : format == KvFormat::mxfp4 ? Format::mxfp4
                                     : Format::mxfp8_e4m3;
}

// Codes and scales of rows as quantize_into makes them.
BlockTensor quantized(const Heads& h, KvFormat format, float global, const Numerics& numerics) {
  QuantizeOptions o{.input = h.rows(), .format = format_of(format), .numerics = numerics};
  if (format == KvFormat::nvfp4) o.global_scale = global;
  return quantize(o);
}

void expect_rows(const OwnedCache& cache, const KvPart& codes, const KvPart& scales,
                 const Heads& rows, float global, const Numerics& numerics, const char* name) {
  const KvFormat format = cache.view.format;
  const std::int64_t code_bytes = kv_page::token_code_bytes(format, rows.d),
                     scale_bytes = kv_page::token_scale_bytes(format, rows.d);
  const BlockTensor want = quantized(rows, format, global, numerics);
  std::vector<std::uint8_t> fp8(static_cast<std::size_t>(rows.d));
  for (std::int64_t b = 0; b < rows.batch; ++b)
    for (std::int64_t t = 0; t < rows.tokens; ++t)
      for (std::int64_t h = 0; h < rows.heads; ++h) {
        const std::int64_t row = (b * rows.tokens + t) * rows.heads + h;
        const std::uint8_t* expected = want.codes().data() + row * code_bytes;
        if (format == KvFormat::fp8) {
          for (std::int64_t i = 0; i < rows.d; ++i)
            fp8[static_cast<std::size_t>(i)] =
                E4M3::encode(rows.at(b, t, h, i) * (1.0f / global), Rounding::nearest_even);
          expected = fp8.data();
        }
        ASSERT_EQ(
            std::memcmp(cache.row(codes, b, h, t), expected, static_cast<std::size_t>(code_bytes)),
            0)
            << name << " codes of sequence " << b << " token " << t << " head " << h;
        ASSERT_TRUE(scale_bytes == 0 || std::memcmp(cache.row(scales, b, h, t),
                                                    want.scales().data() + row * scale_bytes,
                                                    static_cast<std::size_t>(scale_bytes)) == 0)
            << name << " scales of sequence " << b << " token " << t << " head " << h;
      }
}

TEST(AppendKv, gives_the_bytes_of_the_quantizer_in_every_layout) {
  for (const KvFormat format : test::kv_formats)
    for (const CacheLayout layout : {CacheLayout::records, CacheLayout::contiguous,
                                     CacheLayout::nhd, CacheLayout::hnd, CacheLayout::joined})
      for (const std::int64_t d : {32, 96, 128}) {
        OwnedCache cache(format, layout, 2, 3, d, 16, 50);
        cache.view.k_global_scale = 0.01f;
        cache.view.v_global_scale = 0.02f;
        const Heads k = test::random_heads(DType::bf16, 2, 37, 3, d, 1),
                    v = test::random_heads(DType::f16, 2, 37, 3, d, 2);
        cache.append(k, v, 0, 37);
        expect_rows(cache, cache.view.k_codes, cache.view.k_scales, k, 0.01f, {}, "K");
        expect_rows(cache, cache.view.v_codes, cache.view.v_scales, v, 0.02f, {}, "V");
      }
}

TEST(AppendKv, has_the_scale_rules) {
  for (const ScaleRule rule : {ScaleRule::nearest, ScaleRule::four_over_six}) {
    OwnedCache cache(KvFormat::nvfp4, CacheLayout::records, 1, 2, 64, 32, 64);
    const Heads k = test::random_heads(DType::f32, 1, 60, 2, 64, 1);
    AppendKvOptions o;
    o.numerics.scale_rule = rule;
    cache.append(k, k, 0, 60, o);
    expect_rows(cache, cache.view.k_codes, cache.view.k_scales, k, 1.0f, o.numerics, "K");
  }
}

TEST(AppendKv, in_steps_is_the_same_as_at_once_and_writes_nothing_else) {
  const Heads k = test::random_heads(DType::bf16, 3, 100, 2, 64, 1),
              v = test::random_heads(DType::bf16, 3, 100, 2, 64, 2);
  OwnedCache once(KvFormat::nvfp4, CacheLayout::records, 3, 2, 64, 16, 128),
      steps(KvFormat::nvfp4, CacheLayout::records, 3, 2, 64, 16, 128);
  once.keep(5, 20);
  steps.keep(5, 20);
  once.append(k, v, 0, 100);
  std::int64_t at = 0;
  for (const std::int64_t n : {1, 1, 14, 3, 40, 0, 25, 16}) {
    const std::vector<std::uint8_t> before = steps.memory;
    steps.append(k, v, at, at + n);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < before.size(); ++i) changed += before[i] != steps.memory[i];
    EXPECT_LE(changed, static_cast<std::size_t>(3 * n * 2 * 2 * 36));
    at += n;
  }
  ASSERT_EQ(at, 100);
  EXPECT_EQ(steps.memory, once.memory);
  EXPECT_EQ(steps.first_k, once.first_k);
  EXPECT_EQ(steps.first_v, once.first_v);
  EXPECT_EQ(steps.recent_k, once.recent_k);
  EXPECT_EQ(steps.recent_v, once.recent_v);
  for (std::int64_t p = 80; p < 100; ++p)  // the ring has the last 20
    for (std::int64_t i = 0; i < 64; ++i)
      ASSERT_EQ(bf16_to_float(
                    once.recent_v[static_cast<std::size_t>(((1 * 20 + p % 20) * 2 + 1) * 64 + i)]),
                v.at(1, p, 1, i));
}

TEST(AppendKv, transforms_keys_and_leaves_values) {
  constexpr std::int64_t d = 64, n = 40;
  std::vector<float> cos(64 * d / 2), sin(64 * d / 2), mean;
  fill_rope_tables(10000.0, 64, d, cos, sin);
  for (std::int64_t i = 0; i < 2 * d; ++i) mean.push_back(0.01f * static_cast<float>(i));
  const Heads k = test::random_heads(DType::bf16, 2, n, 2, d, 1),
              v = test::random_heads(DType::bf16, 2, n, 2, d, 2);
  OwnedCache cache(KvFormat::nvfp4, CacheLayout::records, 2, 2, d, 16, 64);
  cache.set_mean(mean);
  cache.view.hadamard = 16;
  cache.keep(3, 7);
  AppendKvOptions o;
  o.rope = {cos.data(), sin.data(), 64, d, true};
  cache.append(k, v, 0, 25, o);
  cache.append(k, v, 25, n, o);
  o.cache = cache.view;
  Heads transformed(DType::f32, 2, n, 2, d), values = transformed;
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < n; ++t)
      for (std::int64_t h = 0; h < 2; ++h) {
        std::vector<float> row;
        for (std::int64_t i = 0; i < d; ++i) row.push_back(k.at(b, t, h, i));
        transform_key(o, h, t, row.data());
        for (std::int64_t i = 0; i < d; ++i) {
          transformed.set(b, t, h, i, row[static_cast<std::size_t>(i)]);
          values.set(b, t, h, i, v.at(b, t, h, i));
        }
        if (t < 3) {
          EXPECT_EQ(cache.first_k[static_cast<std::size_t>(((b * 3 + t) * 2 + h) * d + 9)],
                    float_to_bf16(row[9]));
        }
      }
  expect_rows(cache, cache.view.k_codes, cache.view.k_scales, transformed, 1.0f, {}, "K");
  expect_rows(cache, cache.view.v_codes, cache.view.v_scales, values, 1.0f, {}, "V");
}

// K and V as views of one tensor of heads; runs that begin inside a page; copies; V's scales wider
// apart than K's.
TEST(AppendKv, takes_views_and_strides_of_their_own) {
  constexpr std::int64_t d = 64, heads = 3, n = 40,
                         apart = 2 * d + 8;  // elements from head to head
  for (const KvFormat format : test::kv_formats) {
    const Heads k = test::random_heads(DType::bf16, 2, n, heads, d, 1),
                v = test::random_heads(DType::bf16, 2, n, heads, d, 2);
    std::vector<std::uint16_t> both(static_cast<std::size_t>(2 * n * heads * apart), 0x7FC0);
    for (std::int64_t row = 0; row < 2 * n * heads; ++row)
      for (const Heads* from : {&k, &v})
        std::memcpy(both.data() + row * apart + (from == &v ? d : 0),
                    from->bytes.data() + row * d * 2, d * 2);
    OwnedCache packed(format, CacheLayout::nhd, 2, heads, d, 16, 64),
        views(format, CacheLayout::nhd, 2, heads, d, 16, 64);
    std::vector<std::uint8_t> wide(2 * views.v_scales.size() + 16, 0xFF);
    KvPart& v_scales = views.view.v_scales;
    if (v_scales.data != nullptr)
      v_scales = {wide.data(), 2 * v_scales.page_stride, 2 * v_scales.head_stride,
                  2 * v_scales.token_stride};
    packed.keep(3, 9);
    views.keep(3, 9);
    using Range = std::pair<std::int64_t, std::int64_t>;
    for (const auto& [begin, end] : {Range{0, 21}, Range{21, n}}) {
      packed.append(k, v, begin, end);
      for (std::int32_t& length : views.lengths) length = static_cast<std::int32_t>(end);
      HeadsView view{.data = both.data() + begin * heads * apart,
                     .dtype = DType::bf16,
                     .batch = 2,
                     .tokens = end - begin,
                     .heads = heads,
                     .d = d,
                     .token_stride = heads * apart,
                     .head_stride = apart,
                     .batch_stride = n * heads * apart};
      AppendKvOptions o{.cache = views.view, .k = view, .v = view};
      o.v.data = both.data() + begin * heads * apart + d;
      append_kv(o);
    }
    EXPECT_EQ(views.k_codes, packed.k_codes);
    EXPECT_EQ(views.v_codes, packed.v_codes);
    EXPECT_EQ(views.k_scales, packed.k_scales);
    EXPECT_EQ(views.recent_k, packed.recent_k);
    EXPECT_EQ(views.recent_v, packed.recent_v);
    EXPECT_EQ(views.first_v, packed.first_v);
    const std::int64_t scale_bytes = kv_page::token_scale_bytes(format, d);
    for (std::int64_t at = 0; scale_bytes > 0 && at < 2 * heads * n; ++at)
      ASSERT_EQ(
          std::memcmp(views.row(v_scales, at % 2, at / 2 % heads, at / 2 / heads),
                      packed.row(packed.view.v_scales, at % 2, at / 2 % heads, at / 2 / heads),
                      static_cast<std::size_t>(scale_bytes)),
          0);
  }
}

TEST(AppendKv, says_which_operation_has_no_backend) {
  OwnedCache cache(KvFormat::nvfp4, CacheLayout::records, 1, 1, 32, 16, 16);
  const Heads k = test::random_heads(DType::bf16, 1, 1, 1, 32, 1);
  cache.lengths = {1};
  const char* const set = std::getenv("MICROSCALE_BACKEND");
  const std::string before = set ? set : "";
  setenv("MICROSCALE_BACKEND", "reference", 1);  // as on a processor that has none of the others
  for (const Backend backend : {Backend::avx2, Backend::avx512, Backend::amx}) try {
      append_kv({.cache = cache.view, .k = k.view(), .v = k.view()}, {.backend = backend});
      ADD_FAILURE() << to_string(backend) << " was chosen";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("append_kv: ", 0), 0u) << error.what();
    }
  if (set)
    setenv("MICROSCALE_BACKEND", before.c_str(), 1);
  else
    unsetenv("MICROSCALE_BACKEND");
}

TEST(AppendKv, takes_packed_sequences) {
  const Heads k = test::random_heads(DType::bf16, 1, 30, 2, 32, 1);
  OwnedCache packed(KvFormat::mxfp4, CacheLayout::records, 3, 2, 32, 16, 64),
      single(KvFormat::mxfp4, CacheLayout::records, 3, 2, 32, 16, 64);
  const std::vector<std::int32_t> offsets{1, 20, 20, 29};
  packed.lengths = single.lengths = {19, 0, 9};
  append_kv({.cache = packed.view, .k = k.view(), .v = k.view(), .offsets = offsets.data()});
  for (std::size_t s = 0; s < 3; ++s) {  // the same, sequence by sequence
    KvCache one = single.view;
    one.batch = 1;
    one.lengths += s;
    one.page_table += static_cast<std::int64_t>(s) * one.max_pages;
    HeadsView part = k.view();
    part.data = k.bytes.data() + offsets[s] * 2 * 32 * 2;
    part.tokens = offsets[s + 1] - offsets[s];
    append_kv({.cache = one, .k = part, .v = part});
  }
  EXPECT_EQ(packed.memory, single.memory);
}

TEST(AppendKv, refuses_what_would_write_elsewhere) {
  const Heads k = test::random_heads(DType::bf16, 2, 20, 2, 32, 1);
  const auto refused = [&](const std::function<void(OwnedCache&, AppendKvOptions&)>& spoil,
                           const std::string& words, ErrorCode code = ErrorCode::invalid_argument) {
    OwnedCache cache(KvFormat::nvfp4, CacheLayout::records, 2, 2, 32, 16, 64);
    cache.lengths = {20, 20};
    AppendKvOptions o{.cache = cache.view, .k = k.view(), .v = k.view()};
    spoil(cache, o);
    const std::vector<std::uint8_t> before = cache.memory;
    try {
      append_kv(o);
      ADD_FAILURE() << "accepted; expected: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
    EXPECT_EQ(cache.memory, before);
  };
  refused([](auto& c, auto&) { c.table[1] = static_cast<std::int32_t>(c.view.pages); },
          "entry 1 of sequence 0");
  refused([](auto& c, auto&) { c.table[4] = -1; }, "entry 0 of sequence 1");
  refused([](auto& c, auto&) { c.table[5] = c.table[0]; }, "two entries of the page table");
  refused([](auto& c, auto&) { c.lengths[1] = 65; }, "room for 64");
  refused([](auto& c, auto&) { c.lengths[0] = -1; }, "sequence 0 has -1 tokens");
  refused([](auto& c, auto&) { c.lengths[0] = 19; }, "lengths count the new ones");
  refused([](auto&, auto& o) { o.cache.k_codes.head_stride = 0; }, "make rows of 16 overlap");
  refused([](auto&, auto& o) { o.cache.v_scales.page_stride = 1; }, "V scales have strides");
  refused([](auto&, auto& o) { o.cache.v_codes = o.cache.k_codes; }, "K codes and V codes begin");
  refused([](auto&, auto& o) { o.cache.k_scales = o.cache.v_codes; }, "V codes and K scales begin");
  refused([](auto&, auto& o) { o.cache.format = static_cast<KvFormat>(9); }, "KvFormat 9");
  refused([](auto&, auto& o) { o.numerics.compat = static_cast<Compat>(77); },
          "numerics.compat is 77");
  refused([](auto& c,
             auto& o) { o.cache.k_mean = reinterpret_cast<const float*>(c.memory.data() + 1); },
          "the mean of K is at an address");
  refused([](auto&, auto& o) { o.k.heads = 1; }, "[batch, tokens, 2, 32]");
  refused([](auto&, auto& o) { o.v.tokens = 19; }, "both be");
  refused([](auto&, auto& o) { o.cache.page_size = 48; }, "16, 32 or 64");
  refused([](auto&, auto& o) { o.cache.hadamard = 32; }, "order 32");
  refused([](auto&, auto& o) { o.cache.k_codes.data = nullptr; }, "K codes are null");
  refused([](auto&, auto& o) { o.cache.k_global_scale = 0; }, "global scale 0");
  refused([](auto&, auto& o) { o.numerics.scale_rule = ScaleRule::rceil; }, "no scale rule");
  refused([](auto&, auto& o) { o.numerics.rounding = Rounding::stochastic; }, "stochastic",
          ErrorCode::unsupported);
  static const std::vector<float> table(10 * 16);
  refused(
      [](auto&, auto& o) {
        o.rope = {table.data(), table.data(), 10, 32, false};
      },
      "tables 10");
  refused([](auto&, auto& o) { o.rope = {table.data(), nullptr, 64, 32, false}; }, "one table");
  refused([](auto&, auto& o) { o.rope = {table.data(), table.data(), 64, 34, false}; }, "width 34");
  refused([](auto& c, auto& o) { o.k.data = c.memory.data(); }, "overlaps k");
  static const std::vector<std::int32_t> offsets{0, 21, 20};
  refused([](auto&, auto& o) { o.offsets = offsets.data(); }, "batch of 1");
}

}  // namespace
}  // namespace microscale
