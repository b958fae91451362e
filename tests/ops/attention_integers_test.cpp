// FP4 keys, whose products AVX-512 takes in integers where a row sees all of 32 of them: what that
// rounds, what it must leave to FP32, and that rows stay apart. On every backend of the machine.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "microscale/attention.hpp"
#include "microscale/quantize.hpp"
#include "support/attention.hpp"
#include "support/guarded.hpp"

namespace microscale {
namespace {

using test::Heads;

struct Formats {
  Format k, v;
};
constexpr Formats all_formats[] = {{Format::nvfp4, Format::nvfp4},
                                   {Format::mxfp4, Format::mxfp4},
                                   {Format::nvfp4, Format::mxfp4},
                                   {Format::mxfp4, Format::nvfp4}};

/// One kv head.
class Problem {
 public:
  std::int64_t n, d, q_len, q_heads;
  Heads q;
  BlockTensor k, v;

  Problem(Formats formats, std::int64_t keys, std::int64_t width, std::int64_t queries = 3,
          std::int64_t heads = 2)
      : n(keys),
        d(width),
        q_len(queries),
        q_heads(heads),
        q(test::random_heads(DType::f32, 1, queries, heads, width, 1)) {
    const Heads keys_dense = test::random_heads(DType::f32, 1, n, 1, d, 2),
                values_dense = test::random_heads(DType::f32, 1, n, 1, d, 3);
    k = quantize({.input = keys_dense.rows(), .format = formats.k});
    v = quantize({.input = values_dense.rows(), .format = formats.v});
  }

  /// The scale byte of a row's block.
  static std::uint8_t& scale(BlockTensor& t, std::int64_t row, std::int64_t block) {
    const BlockShape& shape = t.shape();
    const std::int64_t blocks = shape.cols / (shape.format == Format::nvfp4 ? 16 : 32);
    return t.scales()[static_cast<std::size_t>(row * blocks + block)];
  }

  std::int64_t window = 0;

  /// Causal; of the first `keys` keys, the queries from `first` on.
  Heads run(Backend backend, std::int64_t first, std::int64_t count, std::int64_t keys) const {
    Heads o(DType::f32, 1, count, q_heads, d);
    HeadsView queries = q.view();
    queries.data = q.bytes.data() + first * q_heads * d * 4;
    queries.tokens = count;
    const auto first_rows = [&](const BlockTensor& t) {
      BlockTensorView view = t.view();
      const auto rows = static_cast<std::size_t>(keys);
      view.codes = view.codes.first(view.codes.size() / static_cast<std::size_t>(n) * rows);
      view.scales = view.scales.first(view.scales.size() / static_cast<std::size_t>(n) * rows);
      view.shape.rows = keys;
      return BlockHeadsView{view, 1, keys, 1};
    };
    attention({.q = queries,
               .k = first_rows(k),
               .v = first_rows(v),
               .output = o.mutable_view(),
               .causal = true,
               .window = window,
               .splits = 1},
              {.backend = backend});
    return o;
  }
  Heads run(Backend backend) const { return run(backend, 0, q_len, n); }

  void expect_bounds(const std::string& where) const {
    const auto rows_of = [&](const BlockTensor& t) {
      BlockTensorView view = t.view();
      view.global_scale = 1.0f;
      Heads h(DType::f32, 1, n, 1, d);
      h.bytes = test::decoded(view).bytes;
      return test::head_rows(h, 0, 0, 0, n, t.global_scale);
    };
    test::OracleRow row{.q = {}, .k = rows_of(k), .v = rows_of(v)};
    row.scale = 1 / std::sqrt(static_cast<double>(d));
    row.causal = true;
    row.window = window;
    for (const Backend backend : test::host_backends()) {
      const Heads o = run(backend);
      for (std::int64_t t = 0; t < q_len; ++t)
        for (std::int64_t h = 0; h < q_heads; ++h) {
          row.q = test::head_rows(q, 0, h, t, 1)[0];
          row.position = n - q_len + t;
          const test::OracleResult want = test::oracle(row);
          test::expect_row(want, o, 0, t, h, {want, n, d, backend},
                           where + " on " + std::string(to_string(backend)));
        }
    }
  }
};

std::string name_of(Formats f) {
  return std::string(info(f.k).name) + " and " + std::string(info(f.v).name);
}

TEST(AttentionIntegers, keep_the_bound_for_every_length_and_size) {
  for (const Formats f : all_formats) {
    for (const std::int64_t n : {31, 32, 33, 63, 64, 65, 127, 160})
      Problem(f, n, 128).expect_bounds(name_of(f) + ", " + std::to_string(n) + " keys");
    for (const std::int64_t d : {32, 64, 96, 160, 192, 224, 256})
      Problem(f, 70, d).expect_bounds(name_of(f) + ", d " + std::to_string(d));
    for (const std::int64_t heads : {1, 3, 4, 5, 7, 64})
      Problem(f, 96, 96, 1, heads).expect_bounds(name_of(f) + ", heads " + std::to_string(heads));
  }
}

// Rows that see all of a block beside rows that see a part of it.
TEST(AttentionIntegers, compute_every_query_on_its_own) {
  for (const Formats f : all_formats) {
    const Problem p(f, 200, 96, 70);
    for (const Backend backend : test::host_backends()) {
      const Heads all = p.run(backend);
      for (const std::int64_t t : {0, 1, 28, 29, 30, 33, 61, 69}) {
        const Heads one = p.run(backend, t, 1, p.n - p.q_len + t + 1);
        for (std::int64_t h = 0; h < p.q_heads; ++h)
          for (std::int64_t i = 0; i < p.d; ++i)
            ASSERT_EQ(one.at(0, 0, h, i), all.at(0, t, h, i))
                << name_of(f) << ", query " << t << " on " << to_string(backend);
      }
    }
  }
}

// E8M0 from one end to the other, and blocks of zeros, whose scales may be anything.
TEST(AttentionIntegers, keep_the_bound_whatever_scales_are) {
  for (const Formats f : all_formats)
    for (const bool values : {false, true})
      for (const std::uint8_t byte : {0, 1, 63, 64, 100, 170, 190}) {
        Problem p(f, 96, 128);
        BlockTensor& side = values ? p.v : p.k;
        const bool e4m3 = side.shape().format == Format::nvfp4;
        Problem::scale(side, 40, 2) = e4m3 ? byte & 0x7E : byte;
        Problem::scale(side, 63, 3) = e4m3 ? 0 : byte;
        for (std::int64_t i = 0; i < p.q_heads * p.q_len * p.d && !values && byte > 130; ++i)
          store_dense(std::ldexp(load_dense(p.q.bytes.data(), DType::f32, i), 127 - byte),
                      p.q.bytes.data(), DType::f32, i);
        p.expect_bounds(name_of(f) + (values ? ", V" : ", K") + " with scale byte " +
                        std::to_string(byte));
      }
}

// NaN in a scale of a block that some rows see all of, some a part of, some nothing.
TEST(AttentionIntegers, pass_nan_on_to_those_who_see_it) {
  for (const Formats f : all_formats) {
    const Problem clean(f, 100, 96, 70);
    for (const bool values : {false, true}) {
      Problem p = clean;
      BlockTensor& side = values ? p.v : p.k;
      const bool e4m3 = side.shape().format == Format::nvfp4;
      constexpr std::int64_t key = 50;
      Problem::scale(side, key, 1) = e4m3 ? 0x7F : 0xFF;
      const std::int64_t first = e4m3 ? 16 : 32, end = e4m3 ? 32 : 64;
      for (const Backend backend : test::host_backends()) {
        const Heads o = p.run(backend), want = clean.run(backend);
        for (std::int64_t t = 0; t < p.q_len; ++t)
          for (std::int64_t i = 0; i < p.d; ++i) {
            const bool sees = p.n - p.q_len + t >= key;
            const float got = o.at(0, t, 0, i);
            if (sees && (!values || (i >= first && i < end)))
              ASSERT_TRUE(std::isnan(got)) << "query " << t << " element " << i;
            else if (!sees)
              ASSERT_EQ(got, want.at(0, t, 0, i)) << "query " << t << " element " << i;
            else
              ASSERT_NEAR(got, want.at(0, t, 0, i), 1e-2) << "query " << t << " element " << i;
          }
      }
    }
  }
}

// A scale that is NaN or has a sign keeps its block out of integers, wherever among the bytes that
// are looked at together it lies.
TEST(AttentionIntegers, find_scales_that_are_no_magnitudes_wherever_they_lie) {
  for (const std::int64_t d : {32, 128, 160, 256})
    for (const bool values : {false, true})
      for (const std::int64_t key : {0, 7, 8, 15, 16, 25, 31})
        for (const std::int64_t block : {std::int64_t{0}, d / 32, d / 16 - 1}) {
          const std::string where = std::to_string(d) + (values ? ", V" : ", K") + ", key " +
                                    std::to_string(key) + ", block " + std::to_string(block);
          Problem p({Format::nvfp4, Format::nvfp4}, 32, d, 1);
          BlockTensor& side = values ? p.v : p.k;
          Problem::scale(side, key, block) |= 0x80;
          p.expect_bounds(where + ", a sign");
          Problem::scale(side, key, block) = 0x7F;
          for (const Backend backend : test::host_backends()) {
            const Heads o = p.run(backend);
            for (std::int64_t i = 0; i < d; ++i)
              ASSERT_EQ(std::isnan(o.at(0, 0, 0, i)), !values || i / 16 == block) << where;
          }
        }
}

// A window begins and ends anywhere in a block, and V where one query no longer sees it may be NaN.
TEST(AttentionIntegers, see_a_window) {
  for (const Formats f : all_formats)
    for (const std::int64_t window : {1, 20, 32, 33, 40, 64, 70}) {
      Problem p(f, 96, 64, 4);
      p.window = window;
      const std::string where = name_of(f) + ", window " + std::to_string(window);
      p.expect_bounds(where);
      const Problem clean = p;
      const std::int64_t key = p.n - p.q_len + 1 - window;  // that the first query alone sees
      Problem::scale(p.v, key, 0) = f.v == Format::nvfp4 ? 0x7F : 0xFF;
      for (const Backend backend : test::host_backends()) {
        const Heads o = p.run(backend), want = clean.run(backend);
        EXPECT_TRUE(std::isnan(o.at(0, 0, 0, 0))) << where << " on " << to_string(backend);
        for (std::int64_t t = 1; t < p.q_len; ++t)
          for (std::int64_t h = 0; h < p.q_heads; ++h)
            for (std::int64_t i = 0; i < p.d; ++i)
              ASSERT_NEAR(o.at(0, t, h, i), want.at(0, t, h, i), 1e-2)
                  << where << " on " << to_string(backend);
      }
    }
}

/// Codes or scales of `heads` kv heads, token by token.
std::vector<std::uint8_t> side_by_side(const std::vector<std::span<const std::uint8_t>>& heads,
                                       std::int64_t tokens) {
  std::vector<std::uint8_t> all;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (const auto& head : heads) {
      const auto row = head.size() / static_cast<std::size_t>(tokens);
      const auto of_token = head.subspan(static_cast<std::size_t>(t) * row, row);
      all.insert(all.end(), of_token.begin(), of_token.end());
    }
  return all;
}

// Rows of codes and scales lie apart where there are several kv heads; the last ends its memory.
TEST(AttentionIntegers, read_the_rows_of_a_head_and_nothing_beyond) {
  for (const Formats f : all_formats)
    for (const std::int64_t d : {32, 64, 96, 128, 160, 256})
      for (const std::int64_t n : {32, 40, 48, 63, 64}) {
        const Problem first(f, n, d, 1, 2);
        Problem second(f, n, d, 1, 2);
        std::swap(second.k.codes()[0], second.k.codes()[static_cast<std::size_t>(d / 2)]);
        for (std::uint8_t& code : second.v.codes()) code ^= 0x88;  // the other sign
        const auto both = [&](auto&& of) {
          return test::Guarded(side_by_side({of(first), of(second)}, n));
        };
        const test::Guarded kc = both([](const Problem&p) { return p.k.codes(); }),
                            ks = both([](const Problem&p) { return p.k.scales(); }),
                            vc = both([](const Problem&p) { return p.v.codes(); }),
                            vs = both([](const Problem&p) { return p.v.scales(); });
        const auto view = [&](const BlockTensor& t, const test::Guarded& codes,
                              const test::Guarded& scales) {
          BlockTensorView of = t.view();
          of.shape.rows = 2 * n;
          of.codes = {codes.data(), 2 * t.codes().size()};
          of.scales = {scales.data(), 2 * t.scales().size()};
          return BlockHeadsView{of, 1, n, 2};
        };
        Heads q(DType::f32, 1, 1, 4, d);
        for (std::int64_t h = 0; h < 4; ++h)
          for (std::int64_t i = 0; i < d; ++i) q.set(0, 0, h, i, first.q.at(0, 0, h % 2, i));
        for (const Backend backend : test::host_backends()) {
          Heads o(DType::f32, 1, 1, 4, d);
          attention({.q = q.view(),
                     .k = view(first.k, kc, ks),
                     .v = view(first.v, vc, vs),
                     .output = o.mutable_view(),
                     .splits = 1},
                    {.backend = backend});
          const Heads one = first.run(backend), other = second.run(backend);
          for (std::int64_t h = 0; h < 2; ++h)
            for (std::int64_t i = 0; i < d; ++i) {
              ASSERT_EQ(o.at(0, 0, h, i), one.at(0, 0, h, i)) << name_of(f) << ", d " << d;
              ASSERT_EQ(o.at(0, 0, h + 2, i), other.at(0, 0, h, i)) << name_of(f) << ", d " << d;
            }
        }
      }
}

// Rows of q that are no 16-bit integers times a power of two, beside rows that are.
TEST(AttentionIntegers, leave_the_rows_beside_them_as_they_are) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const Formats f : all_formats) {
    Problem p(f, 96, 128, 1, 8);
    const auto times = [&](std::int64_t head, float factor) {
      for (std::int64_t i = 0; i < p.d; ++i) p.q.set(0, 0, head, i, p.q.at(0, 0, head, i) * factor);
    };
    times(1, 0.0f);
    times(2, 0x1p-70f);
    times(3, 0x1p-20f);
    times(5, 0x1p5f);
    p.expect_bounds(name_of(f));
    const Problem before = p;
    times(6, 0x1p120f);
    p.q.set(0, 0, 4, 7, NAN);
    p.q.set(0, 0, 2, 7, inf);
    for (const Backend backend : test::host_backends()) {
      const Heads want = before.run(backend), o = p.run(backend);
      for (std::int64_t i = 0; i < p.d; ++i) {
        EXPECT_TRUE(std::isnan(o.at(0, 0, 4, i)));
        for (const std::int64_t head : {0, 1, 3, 5, 7})
          ASSERT_EQ(o.at(0, 0, head, i), want.at(0, 0, head, i)) << "head " << head;
      }
    }
  }
}

// A key with large values must not take from others what they have where its own are zero, nor a
// block of zeros, whose scale is the least there is.
TEST(AttentionIntegers, keep_what_small_values_weigh_beside_large_ones) {
  for (const Formats f : all_formats)
    for (const float size : {1.0f, 0x1p-6f, 0x1p-9f, 0x1p-15f, 0x1p-20f})
      for (const float largest : {0.0f, 1.0f}) {
        Problem p(f, 64, 128, 1, 4);
        Heads values = test::random_heads(DType::f32, 1, p.n, 1, p.d, 3);
        for (std::int64_t t = 0; t < p.n; ++t)
          for (std::int64_t i = 0; i < p.d; ++i)
            values.set(0, t, 0, i, t > 0 ? values.at(0, t, 0, i) * size : i % 32 ? 0 : largest);
        p.v = quantize({.input = values.rows(), .format = f.v});
        const Heads want = p.run(Backend::reference);
        for (const Backend backend : test::host_backends()) {
          const Heads o = p.run(backend);
          double power = 0, error = 0;
          for (std::int64_t h = 0; h < p.q_heads; ++h)
            for (std::int64_t i = 0; i < p.d; ++i) {
              if (i % 32 == 0) continue;
              power += std::pow(want.at(0, 0, h, i), 2);
              error += std::pow(o.at(0, 0, h, i) - want.at(0, 0, h, i), 2);
            }
          EXPECT_LT(std::sqrt(error / power), 0x1p-6) << name_of(f) << ", " << size << " beside "
                                                      << largest << " on " << to_string(backend);
        }
      }
}

/// Every code `code` under every scale `scale`.
void fill(BlockTensor& t, std::uint8_t code, std::uint8_t scale) {
  for (std::uint8_t& byte : t.codes()) byte = static_cast<std::uint8_t>(code * 17);
  for (std::uint8_t& byte : t.scales()) byte = scale;
}
std::uint8_t one(const BlockTensor& t) { return t.shape().format == Format::nvfp4 ? 0x38 : 127; }

TEST(AttentionIntegers, leave_scales_with_a_sign_alone) {
  for (const bool values : {false, true}) {
    Problem p({Format::nvfp4, Format::nvfp4}, 64, 128, 1);
    for (std::uint8_t& scale : (values ? p.v : p.k).scales()) scale |= 0x80;
    p.expect_bounds(values ? "V" : "K");
  }
}

TEST(AttentionIntegers, give_one_where_values_are_one) {
  for (const Formats f : all_formats)
    for (const std::int64_t n : {32, 64, 160}) {
      Problem p(f, n, 128, 1, 5);
      fill(p.k, 5, one(p.k));
      fill(p.v, 2, one(p.v));
      p.v.global_scale = 1.0f;
      for (const Backend backend : test::host_backends()) {
        const Heads o = p.run(backend);
        for (std::int64_t h = 0; h < p.q_heads; ++h)
          for (std::int64_t i = 0; i < p.d; ++i)
            ASSERT_EQ(o.at(0, 0, h, i), 1.0f) << name_of(f) << ", " << n << " keys";
      }
    }
}

// A probability times a factor just below a power of two must not round into the sign.
TEST(AttentionIntegers, round_the_largest_weight_and_the_largest_q_up) {
  for (const float just_below : {0x1.fffffep0f, 0x1.fffep0f, 0x1.fffdp0f, 0x1.fff8p0f}) {
    Problem p({Format::nvfp4, Format::nvfp4}, 32, 128, 1, 4);
    fill(p.k, 0, one(p.k));
    fill(p.v, 0, one(p.v));
    for (BlockTensor* side : {&p.k, &p.v})  // the first key is the one that counts
      for (std::size_t i = 0; i < 64; ++i) side->codes()[i] = 0x77;
    p.k.global_scale = 1.0f;
    p.v.global_scale = just_below;
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t i = 0; i < p.d; ++i) p.q.set(0, 0, h, i, just_below);
    p.expect_bounds("factor " + std::to_string(just_below));
    for (const Backend backend : test::host_backends())
      ASSERT_NEAR(p.run(backend).at(0, 0, 0, 0), 6 * just_below, 6 * 0x1p-7);
  }
}

}  // namespace
}  // namespace microscale
