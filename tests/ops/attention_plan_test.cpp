// AttentionPlan on every backend of this machine: the bytes of attention(), and what it refuses.
#include "microscale/attention_plan.hpp"

#include <gtest/gtest.h>

#include "microscale/error.hpp"
#include "support/caches.hpp"

namespace microscale {
namespace {

using test::Heads;
using test::OwnedCache;

constexpr std::int64_t batch = 2, tokens = 70, q_len = 3, q_heads = 4, kv_heads = 2, d = 64;

/// Operands of a call, made with one seed.
struct Operands {
  Heads q, k, v, o{DType::f32, batch, q_len, q_heads, d};
  OwnedCache cache{KvFormat::mxfp4, test::CacheLayout::records, batch, kv_heads, d, 16, tokens};

  explicit Operands(unsigned seed)
      : q(test::random_heads(DType::bf16, batch, q_len, q_heads, d, seed)),
        k(test::random_heads(DType::bf16, batch, tokens, kv_heads, d, seed + 1)),
        v(test::random_heads(DType::bf16, batch, tokens, kv_heads, d, seed + 2)) {
    cache.append(k, v, 0, tokens);
  }
  AttentionOptions dense() {
    return {.q = q.view(), .k = k.view(), .v = v.view(), .output = o.mutable_view()};
  }
  AttentionOptions cached() {
    return {.q = q.view(), .cache = cache.view, .output = o.mutable_view()};
  }
};

TEST(AttentionPlan, gives_the_bytes_of_a_call_with_other_memory) {
  for (AttentionOptions (Operands::*options)() : {&Operands::dense, &Operands::cached})
    for (const Backend backend : test::host_backends()) {
      const Context context{.backend = backend, .threads = 2};
      Operands made(1), other(7), wanted(7);
      const AttentionPlan plan((made.*options)(), context);
      EXPECT_EQ(plan.workspace_bytes(), 0);
      EXPECT_EQ(plan.describe(), to_string(backend));
      plan.run((other.*options)(), context);
      attention((wanted.*options)(), context);
      EXPECT_EQ(other.o.bytes, wanted.o.bytes) << to_string(backend);
      EXPECT_NE(other.o.bytes, made.o.bytes);
    }
}

void expect_refused(const AttentionPlan& plan, const AttentionOptions& options,
                    const std::string& words, const Context& context = {}) {
  try {
    plan.run(options, context);
    ADD_FAILURE() << "no error; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(AttentionPlan, refuses_options_that_are_not_its_own) {
  Operands o(1);
  const AttentionPlan dense(o.dense()), cached(o.cached());
  const auto refused = [&](const char* words, auto&& change) {
    AttentionOptions options = o.dense();
    change(options);
    expect_refused(dense, options, words);
  };
  refused("q differs", [](AttentionOptions& p) { --std::get<HeadsView>(p.q).tokens; });
  refused("q differs", [](AttentionOptions& p) { std::get<HeadsView>(p.q).dtype = DType::f16; });
  refused("k differs", [](AttentionOptions& p) { ++std::get<HeadsView>(p.k).token_stride; });
  refused("v differs", [](AttentionOptions& p) { --std::get<HeadsView>(p.v).heads; });
  refused("the output", [](AttentionOptions& p) { p.output.dtype = DType::bf16; });
  refused("the scale", [](AttentionOptions& p) { p.scale = 2.0f; });
  refused("the mask", [](AttentionOptions& p) { p.causal = true; });
  refused("the mask", [](AttentionOptions& p) { p.window = 3; });
  refused("the softcap", [](AttentionOptions& p) { p.softcap = 3; });
  refused("packed", [](AttentionOptions& p) { p.sequences = 2; });
  refused("the bounds", [](AttentionOptions& p) { p.max_kv_len = 80; });
  refused("the numerics", [](AttentionOptions& p) { p.numerics.v_along_tokens = true; });
  refused("splits", [](AttentionOptions& p) { p.splits = 2; });
  expect_refused(dense, o.cached(), "the cache differs");
  expect_refused(dense, o.dense(), "made for backend automatic", {.backend = Backend::reference});
  const auto other_cache = [&](auto&& change) {
    AttentionOptions options = o.cached();
    change(*options.cache);
    expect_refused(cached, options, "the cache differs");
  };
  static const float mean[kv_heads * d] = {};
  other_cache([](KvCache& c) { c.k_mean = mean; });
  other_cache([](KvCache& c) { c.page_table = nullptr; });
  other_cache([](KvCache& c) { --c.max_pages; });
  other_cache([](KvCache& c) { c.v_scales.head_stride += 16; });
  other_cache([](KvCache& c) { c.hadamard = 16; });
}

TEST(AttentionPlan, refuses_what_memory_breaks) {
  Operands o(1);
  const AttentionPlan dense(o.dense()), cached(o.cached());
  AttentionOptions options = o.dense();
  options.output.data = nullptr;
  expect_refused(dense, options, "null");
  options = o.dense();
  options.output.data = o.q.bytes.data();
  expect_refused(dense, options, "overlaps");
  o.cache.lengths[1] = 1000;
  expect_refused(cached, o.cached(), "sequence 1 has 1000 tokens");
}

TEST(AttentionPlan, is_refused_where_the_call_is) {
  Operands o(1);
  AttentionOptions options = o.dense();
  std::get<HeadsView>(options.k).d = 32;
  EXPECT_THROW(AttentionPlan{options}, Error);
  EXPECT_THROW((AttentionPlan{o.dense(), {.threads = -1}}), Error);
}

TEST(AttentionPlan, of_no_queries_has_nothing_to_do) {
  Operands o(1);
  AttentionOptions options = o.dense();
  for (AttentionInput* input : {&options.q, &options.k, &options.v})
    std::get<HeadsView>(*input).batch = 0;
  options.output.batch = 0;
  const AttentionPlan plan(options);
  EXPECT_EQ(plan.describe(), "nothing to do");
  EXPECT_NO_THROW(plan.run(options));
}

}  // namespace
}  // namespace microscale
