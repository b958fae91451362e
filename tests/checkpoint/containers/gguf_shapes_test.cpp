#include "checkpoint/containers/gguf_shapes.hpp"

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/containers/gguf_small.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

class GgufShapes : public ::testing::Test {
 protected:
  Status check(const GgufBuilder& builder, const std::string& architecture) {
    write_file(folder_ / "m.gguf", builder.file());
    const GgufFile file = take(open_gguf(folder_ / "m.gguf"));
    return check_gguf_shapes(file, architecture);
  }
  // The small model with one more tensor, or with one number of its metadata another.
  Status with(const std::string& architecture, const std::string& name,
              const std::vector<std::uint64_t>& shape) {
    GgufBuilder builder = small_metadata(architecture);
    std::uint64_t count = 1;
    for (const std::uint64_t length : shape) count *= length;
    builder.tensor(name, GgufType::f32, shape, counting(static_cast<std::int64_t>(count), 0));
    return check(builder, architecture);
  }

  const TemporaryFolder folder_;
};

TEST_F(GgufShapes, those_of_the_metadata_are_right) {
  for (const char* architecture : {"llama", "qwen2", "qwen3", "gemma3"}) {
    GgufBuilder builder = small_metadata(architecture);
    EXPECT_TRUE(succeeds(check(add_small_tensors(builder), architecture))) << architecture;
  }
}

// By 64 columns, 96 inside, 4 heads of 16, 2 key-value heads. GGUF names rows first.
TEST_F(GgufShapes, every_role_is_held_against_the_metadata) {
  EXPECT_TRUE(fails_with(with("llama", "blk.0.attn_k.weight", {64, 64}),
                         "tensor 'blk.0.attn_k.weight' is [64, 64], but by the file's metadata "
                         "(widths, heads and experts of 'llama') it is [32, 64]"));
  EXPECT_TRUE(fails_with(with("qwen2", "blk.0.attn_v.weight", {64, 64}), "it is [32, 64]"));
  EXPECT_TRUE(fails_with(with("qwen2", "blk.0.attn_q.weight", {64, 32}), "it is [64, 64]"));
  EXPECT_TRUE(fails_with(with("qwen2", "blk.0.attn_k.bias", {64}), "is [64], but"));
  EXPECT_TRUE(fails_with(with("qwen3", "blk.0.attn_q_norm.weight", {64}), "it is [16]"));
  EXPECT_TRUE(fails_with(with("llama", "blk.0.attn_output.weight", {32, 64}), "it is [64, 64]"));
  EXPECT_TRUE(fails_with(with("llama", "blk.0.ffn_up.weight", {64, 48}), "it is [96, 64]"));
  EXPECT_TRUE(fails_with(with("llama", "blk.0.ffn_down.weight", {64, 96}), "it is [64, 96]"));
  EXPECT_TRUE(fails_with(with("llama", "blk.0.ffn_norm.weight", {32}), "it is [64]"));
  EXPECT_TRUE(fails_with(with("gemma3", "blk.0.post_ffw_norm.weight", {32}), "it is [64]"));
  EXPECT_TRUE(fails_with(with("llama", "token_embd.weight", {32, 6}), "it is [6, 64]"));
  EXPECT_TRUE(succeeds(with("llama", "blk.0.attn_k.weight", {64, 32})));
}

TEST_F(GgufShapes, an_output_has_the_rows_of_the_embedding) {
  GgufBuilder builder = small_metadata("llama");
  add_small_tensors(builder).tensor("output.weight", GgufType::q8_0, {64, 5}, q8_0_blocks(10));
  EXPECT_TRUE(fails_with(check(builder, "llama"), "'output.weight' is [5, 64]"));
}

TEST_F(GgufShapes, experts_are_as_many_and_as_wide_as_the_metadata_says) {
  const auto experts = [&](std::uint64_t count, std::uint64_t inner) {
    GgufBuilder builder = small_metadata("qwen3moe");
    builder.value("qwen3moe.expert_count", gguf_u32(4));
    builder.value("qwen3moe.expert_feed_forward_length", gguf_u32(8));
    builder.tensor("blk.0.ffn_up_exps.weight", GgufType::q8_0, {64, inner, count},
                   q8_0_blocks(static_cast<std::int64_t>(2 * inner * count)));
    return check(builder, "qwen3moe");
  };
  EXPECT_TRUE(succeeds(experts(4, 8)));
  EXPECT_TRUE(fails_with(experts(3, 8), "is [3, 8, 64], but"));
  EXPECT_TRUE(fails_with(experts(4, 16), "it is [4, 8, 64]"));
}

TEST_F(GgufShapes, what_the_metadata_leaves_out_is_not_asked) {
  GgufBuilder builder;
  builder.value("general.architecture", gguf_text("llama"));
  builder.tensor("blk.7.attn_k.weight", GgufType::f32, {4, 4}, counting(16, 0));
  EXPECT_TRUE(succeeds(check(builder, "llama")));
}

TEST_F(GgufShapes, layers_beyond_the_metadata_are_refused) {
  EXPECT_TRUE(fails_with(with("llama", "blk.1.ffn_norm.weight", {64}),
                         "is of layer 1, but llama.block_count says that there are only 1"));
}

}  // namespace
}  // namespace microscale
