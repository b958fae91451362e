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

}  // namespace
}  // namespace microscale
