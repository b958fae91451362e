// How operands of attention may lie and what they may hold: packed sequences, strided rows, blocks,
// NaN and infinity.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "microscale/attention.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "support/attention.hpp"
#include "support/paths.hpp"

namespace microscale {
namespace {

using test::Heads;

TEST(AttentionOperands, has_sequences_of_any_length) {
  const std::vector<std::int32_t> q_offsets{0, 3, 3, 4, 10, 12}, kv_offsets{2, 40, 45, 45, 51, 171};
  const Heads q = test::random_heads(DType::bf16, 1, 14, 4, 32, 1),
              k = test::random_heads(DType::bf16, 1, 180, 2, 32, 2),
              v = test::random_heads(DType::bf16, 1, 180, 2, 32, 3);
  for (const Backend backend : test::host_backends()) {
    Heads o = test::random_heads(DType::f32, 1, 14, 4, 32, 4), before = o;
    attention({.q = q.view(),
               .k = k.view(),
               .v = v.view(),
               .output = o.mutable_view(),
               .causal = true,
               .q_offsets = q_offsets.data(),
               .kv_offsets = kv_offsets.data(),
               .sequences = 5,
               .max_q_len = 6,
               .max_kv_len = 120},
              {.backend = backend});
    for (std::size_t s = 0; s < 5; ++s)
      for (std::int64_t t = q_offsets[s]; t < q_offsets[s + 1]; ++t)
        for (std::int64_t h = 0; h < 4; ++h) {
          const std::int64_t length = kv_offsets[s + 1] - kv_offsets[s];
          test::OracleRow row{.q = test::head_rows(q, 0, h, t, 1)[0],
                              .k = test::head_rows(k, 0, h / 2, kv_offsets[s], length),
                              .v = test::head_rows(v, 0, h / 2, kv_offsets[s], length)};
          row.scale = 1 / std::sqrt(32.0);
          row.causal = true;
          row.position = length - (q_offsets[s + 1] - t);
          const test::OracleResult want = test::oracle(row);
          test::expect_row(want, o, 0, t, h, {want, length, 32, backend}, "sequences");
        }
    for (std::int64_t i = 0; i < 4 * 32; ++i)  // tokens of no sequence
      EXPECT_EQ(o.at(0, 12, i / 32, i % 32), before.at(0, 12, i / 32, i % 32));
  }
}

TEST(AttentionOperands, may_have_no_query_in_any_sequence) {
  const std::vector<std::int32_t> q_offsets{1, 1, 1}, kv_offsets{0, 2048, 2048};
  const Heads q = test::random_heads(DType::bf16, 1, 4, 2, 32, 1),
              k = test::random_heads(DType::bf16, 1, 2048, 2, 32, 2);
  for (const Backend backend : test::host_backends())
    for (const int splits : {0, 1, 3}) {
      Heads o = test::random_heads(DType::f32, 1, 4, 2, 32, 4);
      const std::vector<std::uint8_t> before = o.bytes;
      attention({.q = q.view(),
                 .k = k.view(),
                 .v = k.view(),
                 .output = o.mutable_view(),
                 .q_offsets = q_offsets.data(),
                 .kv_offsets = kv_offsets.data(),
                 .sequences = 2,
                 .splits = splits},
                {.backend = backend});
      EXPECT_EQ(o.bytes, before);
    }
}

// What keys are rounded to takes as many bytes as there are addresses; nothing is where they are.
TEST(AttentionOperands, says_that_there_is_no_memory) {
  if (!testing::sanitizers().empty())
    GTEST_SKIP() << "a sanitizer's allocator ends the process in place of std::bad_alloc";
  constexpr std::int64_t tokens = std::int64_t{1} << 35;
  const Heads q = test::random_heads(DType::bf16, 1, 1, 8, 128, 1);
  const HeadsView k{
      reinterpret_cast<void*>(std::uintptr_t{1} << 20), DType::bf16, 1, tokens, 8, 128};
  Heads o = test::random_heads(DType::f32, 1, 1, 8, 128, 4);
  AttentionOptions options{.q = q.view(), .k = k, .v = k, .output = o.mutable_view()};
  options.numerics.accuracy = AttentionAccuracy::one_term;
  try {
    attention(options, {.backend = Backend::reference});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
    EXPECT_NE(std::string(error.what()).find("attention: no host memory"), std::string::npos);
  }
}

TEST(AttentionOperands, reads_strided_rows) {
  constexpr std::int64_t tokens = 20, d = 32;
  const Heads fused = test::random_heads(DType::bf16, 2, tokens, 2 + 1 + 1, d, 5);
  for (const Backend backend : test::host_backends()) {
    const auto part = [&](std::int64_t head, std::int64_t heads) {
      HeadsView view = fused.view();
      view.data = fused.bytes.data() + head * d * 2;
      view.token_stride = 4 * d;
      view.heads = heads;
      return view;
    };
    Heads packed_q(DType::bf16, 2, tokens, 2, d), packed_k(DType::bf16, 2, tokens, 1, d),
        packed_v = packed_k;
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t i = 0; i < d; ++i) {
          packed_q.set(b, t, 0, i, fused.at(b, t, 0, i));
          packed_q.set(b, t, 1, i, fused.at(b, t, 1, i));
          packed_k.set(b, t, 0, i, fused.at(b, t, 2, i));
          packed_v.set(b, t, 0, i, fused.at(b, t, 3, i));
        }
    Heads o(DType::f32, 2, tokens, 2, d), want = o;
    MutableHeadsView by_head = o.mutable_view();  // [batch, heads, tokens, d]
    by_head.head_stride = tokens * d;
    by_head.token_stride = d;
    by_head.batch_stride = 2 * tokens * d;
    attention({.q = part(0, 2), .k = part(2, 1), .v = part(3, 1), .output = by_head},
              {.backend = backend});
    attention({.q = packed_q.view(),
               .k = packed_k.view(),
               .v = packed_v.view(),
               .output = want.mutable_view()},
              {.backend = backend});
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t h = 0; h < 2; ++h)
          for (std::int64_t i = 0; i < d; ++i)
            ASSERT_EQ(load_dense(o.bytes.data(), DType::f32, ((b * 2 + h) * tokens + t) * d + i),
                      want.at(b, t, h, i));
  }
}

TEST(AttentionOperands, decodes_block_scaled_operands_exactly) {
  constexpr std::int64_t n = 70, d = 96;
  for (const Format format :
       {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2}) {
    const Heads q = test::random_heads(DType::f32, 1, 4, 4, d, 1),
                k = test::random_heads(DType::f32, 1, n, 2, d, 2),
                v = test::random_heads(DType::f32, 1, n, 2, d, 3);
    const auto blocks = [&](const Heads& h) {
      return quantize({.input = h.rows(), .format = format});
    };
    const BlockTensor qb = blocks(q), kb = blocks(k), vb = blocks(v);
    const auto exact = [](const BlockTensor& b, const Heads& like) {  // without the global scale
      BlockTensorView view = b.view();
      view.global_scale = 1.0f;
      Heads h = like;
      h.bytes = test::decoded(view).bytes;
      return h;
    };
    const Heads qe = exact(qb, q), ke = exact(kb, k), ve = exact(vb, v);
    for (const Backend backend : test::host_backends()) {
      Heads o(DType::f32, 1, 4, 4, d);
      attention({.q = BlockHeadsView{qb.view(), 1, 4, 4},
                 .k = BlockHeadsView{kb.view(), 1, n, 2},
                 .v = BlockHeadsView{vb.view(), 1, n, 2},
                 .output = o.mutable_view(),
                 .causal = true},
                {.backend = backend});
      for (std::int64_t t = 0; t < 4; ++t)
        for (std::int64_t h = 0; h < 4; ++h) {
          test::OracleRow row{.q = test::head_rows(qe, 0, h, t, 1, qb.global_scale)[0],
                              .k = test::head_rows(ke, 0, h / 2, 0, n, kb.global_scale),
                              .v = test::head_rows(ve, 0, h / 2, 0, n, vb.global_scale)};
          row.scale = 1 / std::sqrt(static_cast<double>(d));
          row.causal = true;
          row.position = n - 4 + t;
          const test::OracleResult want = test::oracle(row);
          test::expect_row(want, o, 0, t, h, {want, n, d, backend}, std::string(info(format).name));
        }
    }
  }
}

// Elements as large and as small as scales make them, and q that brings the scores back.
TEST(AttentionOperands, keeps_the_bound_at_both_ends_of_the_range) {
  struct Case {
    Format format;
    int k, q, v;  // powers of two
  };
  constexpr std::int64_t n = 40, d = 96;
  for (const Case c : {Case{Format::nvfp4, 100, -100, 100},
                       {Format::nvfp4, -100, 100, -100},
                       {Format::nvfp4, 0, 60, 0},
                       {Format::mxfp4, 100, -100, 110},
                       {Format::mxfp4, -126, 0, -100},
                       {Format::mxfp8_e4m3, 100, -100, 100},
                       {Format::mxfp8_e4m3, -126, 0, -100}}) {
    const auto scaled = [](Heads h, int power) {
      for (std::int64_t i = 0; i < h.batch * h.tokens * h.heads * h.d; ++i)
        store_dense(std::ldexp(load_dense(h.bytes.data(), DType::f32, i), power), h.bytes.data(),
                    DType::f32, i);
      return h;
    };
    const Heads k = scaled(test::random_heads(DType::f32, 1, n, 1, d, 2), c.k),
                v = scaled(test::random_heads(DType::f32, 1, n, 1, d, 3), c.v);
    const BlockTensor kb = quantize({.input = k.rows(), .format = c.format}),
                      vb = quantize({.input = v.rows(), .format = c.format});
    const auto exact = [](const BlockTensor& b, const Heads& like) {
      BlockTensorView view = b.view();
      view.global_scale = 1.0f;
      Heads h = like;
      h.bytes = test::decoded(view).bytes;
      return h;
    };
    const Heads ke = exact(kb, k), ve = exact(vb, v);
    for (const std::int64_t tokens : {1, 5}) {
      const Heads q = scaled(test::random_heads(DType::f32, 1, tokens, 2, d, 1), c.q);
      for (const Backend backend : test::host_backends()) {
        Heads o(DType::f32, 1, tokens, 2, d);
        attention({.q = q.view(),
                   .k = BlockHeadsView{kb.view(), 1, n, 1},
                   .v = BlockHeadsView{vb.view(), 1, n, 1},
                   .output = o.mutable_view()},
                  {.backend = backend});
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t h = 0; h < 2; ++h) {
            test::OracleRow row{.q = test::head_rows(q, 0, h, t, 1)[0],
                                .k = test::head_rows(ke, 0, 0, 0, n, kb.global_scale),
                                .v = test::head_rows(ve, 0, 0, 0, n, vb.global_scale)};
            row.scale = 1 / std::sqrt(static_cast<double>(d));
            row.position = n - tokens + t;
            const test::OracleResult want = test::oracle(row);
            test::expect_row(want, o, 0, t, h, {want, n, d, backend},
                             std::string(info(c.format).name) + " times 2^" + std::to_string(c.k));
          }
      }
    }
  }
}

TEST(AttentionOperands, passes_non_finite_numbers_on_only_where_they_are_seen) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const Backend backend : test::host_backends())
    for (const DType type : {DType::f32, DType::bf16}) {
      const Heads q = test::random_heads(type, 1, 4, 1, 32, 1);
      Heads k = test::random_heads(type, 1, 80, 1, 32, 2), v = k;
      Heads clean(DType::f32, 1, 4, 1, 32), o = clean;
      const auto run = [&](Heads& output) {
        attention({.q = q.view(),
                   .k = k.view(),
                   .v = v.view(),
                   .output = output.mutable_view(),
                   .causal = true,
                   .window = 70},
                  {.backend = backend});
      };
      run(clean);
      const Heads k0 = k, v0 = v;
      for (std::int64_t i = 0; i < 32; ++i) {  // query 3 is at position 79 and sees 10 to 79
        for (const std::int64_t unseen : {0, 5}) {
          k.set(0, unseen, 0, i, i % 2 ? NAN : inf);
          v.set(0, unseen, 0, i, NAN);
        }
        v.set(0, 79, 0, i, i == 7 ? NAN : v0.at(0, 79, 0, i));
      }
      run(o);
      for (std::int64_t t = 0; t < 4; ++t)
        for (std::int64_t i = 0; i < 32; ++i) {
          if (t == 3 && i == 7)
            EXPECT_TRUE(std::isnan(o.at(0, t, 0, i)));
          else
            EXPECT_EQ(o.at(0, t, 0, i), clean.at(0, t, 0, i)) << "query " << t << " element " << i;
        }
      k = k0, v = v0;
      k.set(0, 78, 0, 3, NAN);
      run(o);
      for (std::int64_t i = 0; i < 32; ++i) {
        EXPECT_EQ(o.at(0, 1, 0, i), clean.at(0, 1, 0, i));
        EXPECT_TRUE(std::isnan(o.at(0, 2, 0, i)) && std::isnan(o.at(0, 3, 0, i)));
      }
      k = k0;
      Heads query = q;
      for (std::int64_t t = 0; t < 4; ++t)
        for (std::int64_t i = 0; i < 32; ++i) query.set(0, t, 0, i, 1.0f);
      k.set(0, 78, 0, 3, -inf);  // weighs nothing
      std::vector<float> lse(4);
      attention({.q = query.view(),
                 .k = k.view(),
                 .v = v.view(),
                 .output = o.mutable_view(),
                 .log_sum_exp = lse.data(),
                 .causal = true},
                {.backend = backend});
      for (const float value : lse) EXPECT_TRUE(std::isfinite(value));
      for (std::int64_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isfinite(o.at(0, 3, 0, i)));
    }
}

}  // namespace
}  // namespace microscale
