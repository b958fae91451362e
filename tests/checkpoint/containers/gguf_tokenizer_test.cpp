#include "checkpoint/containers/gguf_tokenizer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/containers/gguf_small.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;
using Json = nlohmann::ordered_json;

Result<GgufTokenizer> tokenizer_of(const GgufBuilder& builder) {
  const TemporaryFolder folder;
  write_file(folder / "m.gguf", builder.file());
  return gguf_tokenizer(take(open_gguf(folder / "m.gguf")));
}

// SentencePiece's: an unknown token, a space, letters and their words.
GgufBuilder sentence_piece(const std::string& architecture, const std::vector<float>& scores) {
  GgufBuilder builder = small_metadata(architecture);
  builder.value("tokenizer.ggml.model", gguf_text("llama"));
  builder.value("tokenizer.ggml.tokens", gguf_texts({"<unk>", "<s>", "\xE2\x96\x81", "a",
                                                     "\xE2\x96\x81"
                                                     "a",
                                                     "  "}));
  builder.value("tokenizer.ggml.scores",
                gguf_array(GgufValueType::f32, scores.size(), float_bytes(scores)));
  builder.value("tokenizer.ggml.unknown_token_id", gguf_u32(0));
  builder.value("tokenizer.ggml.bos_token_id", gguf_u32(1));
  return builder;
}

TEST(GgufTokenizer, byte_level) {
  GgufBuilder builder = small_metadata("llama");
  builder.value("tokenizer.chat_template", gguf_text("{{ messages }}"));
  const auto result = tokenizer_of(add_small_tokenizer(builder, "smollm"));
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(result.value().notices.empty());
  const Json json = Json::parse(result.value().tokenizer);
  EXPECT_EQ(json["model"]["type"], "BPE");
  EXPECT_EQ(json["model"]["vocab"],
            (Json{{"a", 0}, {"b", 1}, {"ab", 2}, {"\xC4\xA0", 3}, {"<u>", 4}, {"<end>", 5}}));
  EXPECT_EQ(json["model"]["merges"], Json::parse(R"([["a","b"]])"));
  ASSERT_EQ(json["added_tokens"].size(), 2u);
  EXPECT_EQ(json["added_tokens"][0]["content"], "<u>");
  EXPECT_EQ(json["added_tokens"][0]["special"], false);
  EXPECT_EQ(json["added_tokens"][1]["id"], 5);
  EXPECT_EQ(json["added_tokens"][1]["special"], true);
  EXPECT_EQ(json["pre_tokenizer"]["pretokenizers"][0]["type"], "Digits");
  EXPECT_EQ(json["pre_tokenizer"]["pretokenizers"][1]["use_regex"], true);
  EXPECT_EQ(json["post_processor"]["type"], "ByteLevel");
  const Json config = Json::parse(result.value().config);
  EXPECT_EQ(config["eos_token"], "<end>");
  EXPECT_EQ(config["chat_template"], "{{ messages }}");
  EXPECT_EQ(config["model_max_length"], 512);
  EXPECT_EQ(config["add_bos_token"], false);
}

TEST(GgufTokenizer, how_text_is_cut_follows_from_the_name_or_is_told) {
  GgufBuilder qwen = small_metadata("qwen2");
  const Json json = Json::parse(tokenizer_of(add_small_tokenizer(qwen, "qwen2")).value().tokenizer);
  EXPECT_EQ(json["normalizer"]["type"], "NFC");
  EXPECT_EQ(json["pre_tokenizer"]["pretokenizers"][0]["type"], "Split");
  EXPECT_EQ(json["pre_tokenizer"]["pretokenizers"][1]["use_regex"], false);
  GgufBuilder other = small_metadata("llama");
  const auto unknown = tokenizer_of(add_small_tokenizer(other, "new"));
  ASSERT_TRUE(succeeds(unknown));
  ASSERT_EQ(unknown.value().notices.size(), 1u);
  EXPECT_NE(unknown.value().notices[0].find("'new', is not known here"), std::string::npos);
}

TEST(GgufTokenizer, a_first_token_is_put_in_front) {
  GgufBuilder builder = small_metadata("llama");
  builder.value("tokenizer.ggml.add_bos_token",
                gguf_number<std::uint8_t>(GgufValueType::boolean, 1));
  builder.value("tokenizer.ggml.bos_token_id", gguf_u32(5));
  const Json json =
      Json::parse(tokenizer_of(add_small_tokenizer(builder, "llama-bpe")).value().tokenizer);
  EXPECT_EQ(json["post_processor"]["type"], "TemplateProcessing");
  EXPECT_EQ(json["post_processor"]["single"][0]["SpecialToken"]["id"], "<end>");
  EXPECT_EQ(json["post_processor"]["special_tokens"]["<end>"]["ids"], Json::parse("[5]"));
  EXPECT_EQ(json["post_processor"]["pair"].size(), 4u);
  EXPECT_EQ(json["model"]["ignore_merges"], true);
}

TEST(GgufTokenizer, sentence_piece_of_llama) {
  const auto result = tokenizer_of(sentence_piece("llama", {0, 0, -1, -2, -3, -4}));
  ASSERT_TRUE(succeeds(result));
  const Json json = Json::parse(result.value().tokenizer);
  EXPECT_EQ(json["model"]["byte_fallback"], true);
  EXPECT_EQ(json["model"]["unk_token"], "<unk>");
  EXPECT_EQ(json["model"]["merges"], Json::parse("[[\"\xE2\x96\x81\",\"a\"]]"));
  EXPECT_EQ(json["pre_tokenizer"]["type"], "Metaspace");
  EXPECT_EQ(json["post_processor"]["single"][0]["SpecialToken"]["id"], "<s>");
  EXPECT_EQ(Json::parse(result.value().config)["add_bos_token"], true);
}

// Its tokens of spaces are spelled as such, and its scores are not looked at.
TEST(GgufTokenizer, sentence_piece_of_gemma) {
  const auto result = tokenizer_of(sentence_piece("gemma3", {0, 0, NAN, -2, -3, -4}));
  ASSERT_TRUE(succeeds(result));
  const Json json = Json::parse(result.value().tokenizer);
  EXPECT_EQ(json["model"]["vocab"]["\xE2\x96\x81\xE2\x96\x81"], 5);
  EXPECT_EQ(json["model"]["merges"],
            Json::parse("[[\"\xE2\x96\x81\",\"a\"],[\"\xE2\x96\x81\",\"\xE2\x96\x81\"]]"));
  EXPECT_EQ(json["normalizer"]["type"], "Replace");
  EXPECT_EQ(json["pre_tokenizer"]["behavior"], "MergedWithPrevious");
}

TEST(GgufTokenizer, text_that_is_no_utf8_and_equal_tokens_are_survived) {
  GgufBuilder builder = small_metadata("llama");
  builder.value("tokenizer.ggml.model", gguf_text("gpt2"));
  builder.value("tokenizer.ggml.tokens", gguf_texts({"a", "\xFF", "a", "\"\\\n"}));
  builder.value("tokenizer.ggml.merges", gguf_texts({}));
  const Json json = Json::parse(tokenizer_of(builder).value().tokenizer);
  EXPECT_EQ(json["model"]["vocab"], (Json{{"a", 0}, {"\xEF\xBF\xBD", 1}, {"\"\\\n", 3}}));
}

TEST(GgufTokenizer, what_is_missing_or_not_known_is_named) {
  EXPECT_TRUE(fails_with(tokenizer_of(small_metadata("llama")), "holds no tokenizer"));
  EXPECT_TRUE(fails_with(
      tokenizer_of(small_metadata("llama").value("tokenizer.ggml.model", gguf_text("rwkv"))),
      "of the kind 'rwkv'"));
  GgufBuilder bare = small_metadata("llama");
  bare.value("tokenizer.ggml.model", gguf_text("gpt2"));
  EXPECT_TRUE(fails_with(tokenizer_of(bare), "tokenizer.ggml.tokens"));
  bare.value("tokenizer.ggml.tokens", gguf_texts({"a"}));
  EXPECT_TRUE(fails_with(tokenizer_of(bare), "tokenizer.ggml.merges"));
  EXPECT_TRUE(fails_with(tokenizer_of(sentence_piece("llama", {0, 1})), "kinds or scores of 2"));
  bare.value("tokenizer.ggml.merges", gguf_texts({"ab"}));
  EXPECT_TRUE(fails_with(tokenizer_of(bare), "the merge 'ab' is no pair"));
}

}  // namespace
}  // namespace microscale
