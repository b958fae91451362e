#include "checkpoint/containers/gguf_special_tokens.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/containers/gguf_builder.hpp"

namespace microscale {
namespace {

using namespace testing;
using Json = nlohmann::ordered_json;

std::map<std::string, std::string> entries(const std::string& tokenizer, const std::string& config,
                                           const std::string& generation = "{}",
                                           const std::string& model = "{}",
                                           const std::string& chat = "") {
  GgufMetadata metadata;
  const Json trees[] = {Json::parse(tokenizer), Json::parse(config), Json::parse(generation),
                        Json::parse(model)};
  const auto find = [](const std::string& text) -> std::optional<std::int64_t> {
    if (text == "<s>") return 1;
    return text == "</s>" ? std::optional<std::int64_t>(2) : std::nullopt;
  };
  add_gguf_special_tokens({trees[0], trees[1], trees[2], trees[3], chat}, find, metadata);
  return {metadata.entries().begin(), metadata.entries().end()};
}

std::string truth(bool value) { return gguf_number<std::uint8_t>(GgufValueType::boolean, value); }

TEST(GgufSpecialTokens, texts_of_the_tokenizer_come_before_numbers_of_the_model) {
  const auto found = entries("{}", R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>"})",
                             R"({"eos_token_id": [2, 7]})",
                             R"({"bos_token_id": 9, "pad_token_id": 5, "eos_token_id": [3, 4]})");
  EXPECT_EQ(found.at("tokenizer.ggml.bos_token_id"), gguf_u32(1));
  EXPECT_EQ(found.at("tokenizer.ggml.eos_token_id"), gguf_u32(2));
  EXPECT_EQ(found.at("tokenizer.ggml.eot_token_id"), gguf_u32(7));
  EXPECT_EQ(found.at("tokenizer.ggml.padding_token_id"), gguf_u32(5));
  EXPECT_FALSE(found.contains("tokenizer.ggml.unknown_token_id"));
  EXPECT_FALSE(found.contains("tokenizer.ggml.add_bos_token"));
}

TEST(GgufSpecialTokens, what_the_tokenizer_does_comes_before_what_its_config_says) {
  const std::string config = R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false,
                                 "add_eos_token": true})";
  const auto told = entries("{}", config);
  EXPECT_EQ(told.at("tokenizer.ggml.add_bos_token"), truth(false));
  EXPECT_EQ(told.at("tokenizer.ggml.add_eos_token"), truth(true));
  const auto done = entries(
      R"({"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"},
          {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}},
           {"Sequence": {"id": "A"}}]}]}})",
      config);
  EXPECT_EQ(done.at("tokenizer.ggml.add_bos_token"), truth(true));
  EXPECT_EQ(done.at("tokenizer.ggml.add_eos_token"), truth(false));
  const auto bytes = entries(R"({"post_processor": {"type": "ByteLevel"}})", "{}");
  EXPECT_EQ(bytes.at("tokenizer.ggml.add_bos_token"), truth(false));
}

TEST(GgufSpecialTokens, templates_of_chats) {
  EXPECT_EQ(
      entries("{}", R"({"chat_template": "a"})", "{}", "{}", "b").at("tokenizer.chat_template"),
      gguf_text("a"));
  EXPECT_EQ(entries("{}", "{}", "{}", "{}", "b").at("tokenizer.chat_template"), gguf_text("b"));
  const auto named = entries("{}", R"({"chat_template": [{"name": "default", "template": "d"},
                                       {"name": "tool_use", "template": "t"}]})");
  EXPECT_EQ(named.at("tokenizer.chat_template"), gguf_text("d"));
  EXPECT_EQ(named.at("tokenizer.chat_template.tool_use"), gguf_text("t"));
  EXPECT_EQ(named.at("tokenizer.chat_templates"), gguf_texts({"tool_use"}));
}

}  // namespace
}  // namespace microscale
