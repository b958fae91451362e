// Attention on dense and block-scaled operands, on every backend of the machine, against the
// formulas written out in the test.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "microscale/attention.hpp"
#include "support/attention.hpp"

namespace microscale {
namespace {

using test::Heads;

struct Case {
  std::int64_t batch = 1, q_len = 3, kv_len = 70, q_heads = 4, kv_heads = 2, d = 64;
  DType q_type = DType::bf16, kv_type = DType::bf16, o_type = DType::f32;
  bool causal = false;
  std::int64_t window = 0;
  float softcap = 0;
  bool sinks = false;
  int splits = 0;
  std::optional<float> scale{};
  unsigned seed = 1;
};

std::string name_of(const Case& c, Backend backend) {
  return std::string(to_string(backend)) + ", " + std::to_string(c.q_len) + " queries x " +
         std::to_string(c.kv_len) + " keys, heads " + std::to_string(c.q_heads) + "/" +
         std::to_string(c.kv_heads) + ", d " + std::to_string(c.d) + ", splits " +
         std::to_string(c.splits);
}

std::vector<float> sink_values(std::int64_t heads) {
  std::vector<float> sinks;
  for (std::int64_t h = 0; h < heads; ++h) sinks.push_back(0.5f * static_cast<float>(h) - 1.0f);
  return sinks;
}

void expect_case(const Case& c) {
  const Heads q = test::random_heads(c.q_type, c.batch, c.q_len, c.q_heads, c.d, c.seed),
              k = test::random_heads(c.kv_type, c.batch, c.kv_len, c.kv_heads, c.d, c.seed + 1),
              v = test::random_heads(c.kv_type, c.batch, c.kv_len, c.kv_heads, c.d, c.seed + 2);
  const std::vector<float> sinks = sink_values(c.q_heads);
  for (const Backend backend : test::host_backends()) {
    Heads o(c.o_type, c.batch, c.q_len, c.q_heads, c.d);
    std::vector<float> lse(static_cast<std::size_t>(c.batch * c.q_len * c.q_heads), NAN);
    const Heads q0 = q, k0 = k, v0 = v;
    attention({.q = q.view(),
               .k = k.view(),
               .v = v.view(),
               .output = o.mutable_view(),
               .log_sum_exp = lse.data(),
               .scale = c.scale,
               .causal = c.causal,
               .window = c.window,
               .softcap = c.softcap,
               .sinks = c.sinks ? sinks.data() : nullptr,
               .splits = c.splits},
              {.backend = backend});
    EXPECT_TRUE(q.bytes == q0.bytes && k.bytes == k0.bytes && v.bytes == v0.bytes);
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t h = 0; h < c.q_heads; ++h) {
        const std::int64_t g = h / (c.q_heads / c.kv_heads);
        test::OracleRow row{.q = {},
                            .k = test::head_rows(k, b, g, 0, c.kv_len),
                            .v = test::head_rows(v, b, g, 0, c.kv_len)};
        row.scale = c.scale ? *c.scale : 1 / std::sqrt(static_cast<double>(c.d));
        row.softcap = c.softcap;
        row.causal = c.causal;
        row.window = c.window;
        if (c.sinks) row.sink = sinks[static_cast<std::size_t>(h)];
        for (std::int64_t t = 0; t < c.q_len; ++t) {
          row.q = test::head_rows(q, b, h, t, 1)[0];
          row.position = c.kv_len - c.q_len + t;
          const test::OracleResult want = test::oracle(row);
          const test::AttentionBound bound(want, c.kv_len, c.d, backend);
          test::expect_row(want, o, b, t, h, bound, name_of(c, backend));
          const float got = lse[static_cast<std::size_t>((b * c.q_len + t) * c.q_heads + h)];
          if (std::isinf(want.lse))
            EXPECT_EQ(got, static_cast<float>(want.lse));
          else
            EXPECT_NEAR(got, want.lse, bound.lse(want)) << name_of(c, backend) << " lse";
          if (::testing::Test::HasFailure()) return;
        }
      }
  }
}

TEST(Attention, gives_one_where_values_are_one) {
  for (const Backend backend : test::host_backends())
    for (const std::int64_t n : {1, 2, 63, 64, 65, 127, 128, 129, 1000}) {
      const bool bf16 = n % 2 == 0;  // what AMX multiplies itself
      Heads q(DType::bf16, 2, 3, 4, 64), k(bf16 ? DType::bf16 : DType::f32, 2, n, 2, 64),
          v(bf16 ? DType::bf16 : DType::f16, 2, n, 2, 64);
      Heads o(DType::f32, 2, 3, 4, 64);
      for (std::int64_t i = 0; i < 2 * n * 2 * 64; ++i)
        store_dense(1.0f, v.bytes.data(), v.dtype, i);
      std::vector<float> lse(24);
      attention({.q = q.view(),
                 .k = k.view(),
                 .v = v.view(),
                 .output = o.mutable_view(),
                 .log_sum_exp = lse.data()},
                {.backend = backend});
      for (std::int64_t i = 0; i < 2 * 3 * 4 * 64; ++i)
        ASSERT_EQ(load_dense(o.bytes.data(), DType::f32, i), 1.0f) << n << " keys";
      for (const float value : lse)
        ASSERT_NEAR(value, std::log(static_cast<double>(n)), 1e-6 * std::log(n + 1.0));
    }
}

TEST(Attention, returns_a_row_of_v_for_one_hot_scores) {
  constexpr std::int64_t d = 96;
  for (const DType type : {DType::f32, DType::bf16})
    for (const Backend backend : test::host_backends()) {
      Heads q(type, 1, d, 2, d), k(type, 1, d, 1, d);
      const Heads v = test::random_heads(type, 1, d, 1, d, 3);
      for (std::int64_t t = 0; t < d; ++t) {
        k.set(0, t, 0, t, 1.0f);
        q.set(0, t, 0, (t * 5 + 1) % d, 1000.0f);
        q.set(0, t, 1, d - 1 - t, 1000.0f);
      }
      Heads o(DType::f32, 1, d, 2, d);
      attention(
          {.q = q.view(), .k = k.view(), .v = v.view(), .output = o.mutable_view(), .scale = 1.0f},
          {.backend = backend});
      for (std::int64_t t = 0; t < d; ++t)
        for (std::int64_t i = 0; i < d; ++i) {
          ASSERT_EQ(o.at(0, t, 0, i), v.at(0, (t * 5 + 1) % d, 0, i)) << "query " << t;
          ASSERT_EQ(o.at(0, t, 1, i), v.at(0, d - 1 - t, 0, i)) << "query " << t;
        }
    }
}

TEST(Attention, keeps_the_bound_for_every_tail) {
  for (std::int64_t n = 1; n <= 130; ++n) {
    expect_case({.q_len = 1, .kv_len = n, .q_heads = 2, .kv_heads = 1, .d = 32, .seed = 7});
    expect_case({.q_len = std::min<std::int64_t>(n, 5),
                 .kv_len = n,
                 .q_heads = 1,
                 .kv_heads = 1,
                 .d = 32,
                 .causal = true,
                 .splits = n % 3 == 0 ? 3 : 1,
                 .seed = 8});
    if (HasFailure()) FAIL() << n << " keys";
  }
}

TEST(Attention, is_causal_from_the_bottom_right) {
  for (const std::int64_t q_len : {1, 16, 17, 63, 64, 65, 130})
    expect_case({.q_len = q_len, .kv_len = 130, .d = 32, .causal = true});
  expect_case({.q_len = 128, .kv_len = 128, .q_heads = 1, .kv_heads = 1, .d = 128, .causal = true});
}

TEST(Attention, has_every_size_of_head) {
  for (std::int64_t d = 32; d <= 256; d += 32) expect_case({.kv_len = 67, .d = d, .causal = true});
}

TEST(Attention, shares_keys_among_query_heads) {
  for (const std::int64_t kv_heads : {1, 2, 4, 8})
    expect_case({.q_len = 5, .q_heads = 8, .kv_heads = kv_heads, .d = 32, .causal = true});
  expect_case({.q_len = 1, .q_heads = 40, .kv_heads = 1, .d = 32});
}

TEST(Attention, sees_all_in_the_widest_window) {
  const Heads q = test::random_heads(DType::f32, 1, 9, 2, 32, 1),
              k = test::random_heads(DType::f32, 1, 2, 1, 32, 2);
  Heads all(DType::f32, 1, 9, 2, 32), window = all;  // queries stand before the first key, too
  AttentionOptions o{.q = q.view(), .k = k.view(), .v = k.view(), .output = all.mutable_view()};
  attention(o);
  o.output = window.mutable_view();
  o.window = std::numeric_limits<std::int64_t>::max();
  attention(o);
  EXPECT_EQ(all.bytes, window.bytes);
}

TEST(Attention, sees_a_window) {
  for (const std::int64_t window : {1, 2, 31, 64, 65, 500})
    for (const bool causal : {false, true})
      expect_case({.q_len = 40, .kv_len = 150, .d = 32, .causal = causal, .window = window});
  expect_case({.q_len = 3, .kv_len = 300, .d = 32, .causal = true, .window = 70, .splits = 4});
}

TEST(Attention, has_softcap_sinks_and_scale) {
  expect_case({.d = 32, .softcap = 0.7f});
  expect_case({.d = 32, .sinks = true});
  expect_case({.d = 32, .scale = 2.0f});
  expect_case({.d = 32, .scale = -0.3f});
  expect_case({.q_len = 70,
               .kv_len = 64,
               .d = 32,
               .causal = true,
               .window = 9,
               .softcap = 3.0f,
               .sinks = true,
               .splits = 3});
}

TEST(Attention, takes_and_gives_every_dense_type) {
  for (const DType q : {DType::f32, DType::f16, DType::bf16})
    for (const DType kv : {DType::f32, DType::f16, DType::bf16})
      expect_case({.d = 32, .q_type = q, .kv_type = kv, .o_type = q});
}

TEST(Attention, is_the_same_in_any_number_of_threads) {
  const Heads q = test::random_heads(DType::bf16, 2, 9, 4, 64, 1),
              k = test::random_heads(DType::bf16, 2, 500, 2, 64, 2),
              v = test::random_heads(DType::bf16, 2, 500, 2, 64, 3);
  for (const Backend backend : test::host_backends())
    for (const int splits : {0, 1, 5, 256}) {
      std::vector<std::vector<std::uint8_t>> outputs;
      for (const int threads : {1, 2, 3}) {
        Heads o(DType::f32, 2, 9, 4, 64);
        attention({.q = q.view(),
                   .k = k.view(),
                   .v = v.view(),
                   .output = o.mutable_view(),
                   .causal = true,
                   .splits = splits},
                  {.backend = backend, .threads = threads});
        outputs.push_back(o.bytes);
      }
      EXPECT_TRUE(outputs[0] == outputs[1] && outputs[1] == outputs[2]);
    }
  for (const int splits : {2, 7, 256}) expect_case({.kv_len = 500, .d = 32, .splits = splits});
}

// A row's bytes are the same with whatever other rows it is computed.
TEST(Attention, computes_every_query_on_its_own) {
  const Heads q = test::random_heads(DType::bf16, 1, 70, 2, 64, 1),
              k = test::random_heads(DType::bf16, 1, 200, 1, 64, 2),
              v = test::random_heads(DType::bf16, 1, 200, 1, 64, 3);
  for (const Backend backend : test::host_backends())
    for (const std::int64_t window : {0, 50}) {
      Heads all(DType::f32, 1, 70, 2, 64), one(DType::f32, 1, 1, 2, 64);
      attention({.q = q.view(),
                 .k = k.view(),
                 .v = v.view(),
                 .output = all.mutable_view(),
                 .causal = true,
                 .window = window,
                 .splits = 1},
                {.backend = backend});
      for (const std::int64_t t : {0, 33, 69}) {
        HeadsView query = q.view(), keys = k.view(), values = v.view();
        query.data = q.bytes.data() + t * 2 * 64 * 2;
        query.tokens = 1;
        keys.tokens = values.tokens = 200 - 70 + t + 1;
        attention({.q = query,
                   .k = keys,
                   .v = values,
                   .output = one.mutable_view(),
                   .causal = true,
                   .window = window,
                   .splits = 1},
                  {.backend = backend});
        for (std::int64_t h = 0; h < 2; ++h)
          for (std::int64_t i = 0; i < 64; ++i)
            ASSERT_EQ(one.at(0, 0, h, i), all.at(0, t, h, i)) << "query " << t;
      }
    }
}

TEST(Attention, gives_zero_where_nothing_is_seen) {
  const Heads q = test::random_heads(DType::bf16, 1, 5, 2, 32, 1),
              k = test::random_heads(DType::bf16, 1, 3, 2, 32, 2),
              v = test::random_heads(DType::bf16, 1, 3, 2, 32, 3);
  for (const Backend backend : test::host_backends()) {
    Heads o = test::random_heads(DType::f32, 1, 5, 2, 32, 4);
    std::vector<float> lse(10, 1.0f);
    attention({.q = q.view(),
               .k = k.view(),
               .v = v.view(),
               .output = o.mutable_view(),
               .log_sum_exp = lse.data(),
               .causal = true},
              {.backend = backend});
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t t = 0; t < 5; ++t) {
        EXPECT_EQ(std::isinf(lse[static_cast<std::size_t>(2 * t + h)]), t < 2);
        for (std::int64_t i = 0; i < 32; ++i) EXPECT_EQ(o.at(0, t, h, i) == 0, t < 2);
      }
  }
  expect_case({.q_len = 4, .kv_len = 0, .d = 32});
  expect_case({.q_len = 4, .kv_len = 0, .d = 32, .sinks = true});
}

}  // namespace
}  // namespace microscale
