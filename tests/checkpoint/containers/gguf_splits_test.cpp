#include "checkpoint/containers/gguf_splits.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(GgufSplits, each_family_has_its_own) {
  EXPECT_TRUE(find_gguf_split("gpt-2")->expression.empty());
  EXPECT_TRUE(find_gguf_split("smollm")->single_digits);
  EXPECT_TRUE(find_gguf_split("qwen2")->nfc);
  EXPECT_TRUE(find_gguf_split("llama-bpe")->whole_tokens);
  EXPECT_NE(find_gguf_split("llama-bpe")->expression.find(R"(\p{N}{1,3}|)"),
            std::string_view::npos);
  EXPECT_EQ(find_gguf_split("qwen2")->expression.find("{1,3}"), std::string_view::npos);
  EXPECT_NE(find_gguf_split("tekken")->expression, find_gguf_split("gpt-4o")->expression);
  EXPECT_FALSE(find_gguf_split("poro-chat"));
}

TEST(GgufSplits, a_tokenizer_gets_the_name_of_one_that_cuts_as_it_does) {
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "gpt-4o"})
    EXPECT_EQ(gguf_pre_of(*find_gguf_split(pre)), pre);
  GgufSplit split = *find_gguf_split("qwen2");
  split.whole_tokens = true;
  EXPECT_EQ(gguf_pre_of(split), "qwen2");
  split.expression = "[a-z]+";
  EXPECT_FALSE(gguf_pre_of(split));
}

}  // namespace
}  // namespace microscale
