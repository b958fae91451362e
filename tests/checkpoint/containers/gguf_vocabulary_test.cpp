#include "checkpoint/containers/gguf_vocabulary.hpp"

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/containers/gguf_builder.hpp"
#include "checkpoint/containers/sentencepiece_builder.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

using Entries = std::map<std::string, std::string>;

std::string i32s(const std::vector<std::int32_t>& values) {
  std::string bytes;
  for (const std::int32_t value : values) bytes += little_endian(value);
  return gguf_array(GgufValueType::i32, values.size(), bytes);
}

std::string f32s(const std::vector<float>& values) {
  return gguf_array(GgufValueType::f32, values.size(), float_bytes(values));
}

class GgufVocabulary : public ::testing::Test {
 protected:
  Entries entries(std::int64_t vocabulary, std::string_view family = "llama") {
    GgufMetadata metadata;
    notices_.clear();
    take(add_gguf_vocabulary(files_, family, vocabulary, metadata, notices_));
    return {metadata.entries().begin(), metadata.entries().end()};
  }
  ::testing::AssertionResult refused(const std::string& phrase) {
    GgufMetadata metadata;
    return fails_with(add_gguf_vocabulary(files_, "llama", 8, metadata, notices_), phrase);
  }
  TokenizerFiles files_;
  std::vector<std::string> notices_;
};

TEST_F(GgufVocabulary, byte_level_pairs) {
  files_.tokenizer = R"({"added_tokens": [
      {"id": 3, "content": "<|x|>", "special": false}, {"id": 4, "content": "<tool>"},
      {"id": 5, "content": "<end>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "use_regex": true}]},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<end>": 5},
              "merges": ["a b", ["a ", "b"]]}})";
  const Entries found = entries(7);
  EXPECT_EQ(found.at("tokenizer.ggml.model"), gguf_text("gpt2"));
  EXPECT_EQ(found.at("tokenizer.ggml.pre"), gguf_text("smollm"));
  EXPECT_EQ(found.at("tokenizer.ggml.tokens"),
            gguf_texts({"a", "b", "ab", "<|x|>", "<tool>", "<end>", "[PAD6]"}));
  EXPECT_EQ(found.at("tokenizer.ggml.token_type"), i32s({1, 1, 1, 3, 4, 3, 5}));
  EXPECT_EQ(found.at("tokenizer.ggml.merges"), gguf_texts({"a b", "a\xC4\xA0 b"}));
  EXPECT_TRUE(notices_.empty());
  entries(5);
  EXPECT_NE(notices_.at(0).find("numbers beyond vocab_size (5)"), std::string::npos);
}

TEST_F(GgufVocabulary, how_text_is_cut_is_guessed_with_a_word) {
  files_.tokenizer = R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "x+"}},
                         "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  EXPECT_EQ(entries(1, "qwen3").at("tokenizer.ggml.pre"), gguf_text("qwen2"));
  EXPECT_NE(notices_.at(0).find("the file says 'qwen2'"), std::string::npos);
  EXPECT_EQ(entries(1).at("tokenizer.ggml.pre"), gguf_text("default"));
}

TEST_F(GgufVocabulary, pieces_of_sentencepiece_and_what_stands_beside_them) {
  files_.sentencepiece = sentencepiece_file({{"<unk>", 0, PieceType::unknown},
                                             {"<0x0A>", 0, PieceType::byte},
                                             {"ab", -1.5f},
                                             {"c", -2}}) +
                         sentencepiece_without_prefix();
  files_.config = R"({"added_tokens_decoder": {"3": {"content": "<s>", "special": true},
                                               "4": {"content": "\u2581\u2581"}}})";
  files_.added_tokens = R"({"<extra>": 5})";
  const Entries found = entries(7);
  EXPECT_EQ(found.at("tokenizer.ggml.model"), gguf_text("llama"));
  EXPECT_EQ(found.at("tokenizer.ggml.tokens"),
            gguf_texts({"<unk>", "<0x0A>", "ab", "<s>", "  ", "<extra>", "[PAD6]"}));
  EXPECT_EQ(found.at("tokenizer.ggml.token_type"), i32s({2, 6, 1, 3, 4, 4, 5}));
  EXPECT_EQ(found.at("tokenizer.ggml.scores"), f32s({0, 0, -1.5f, -1000, -1000, -1000, -10000}));
  EXPECT_EQ(found.at("tokenizer.ggml.add_space_prefix"),
            gguf_number<std::uint8_t>(GgufValueType::boolean, 0));
}

TEST_F(GgufVocabulary, merges_with_byte_fallback_become_scores) {
  files_.tokenizer = R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
    "normalizer": {"type": "Prepend", "prepend": "x"},
    "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>",
              "vocab": {"<unk>": 0, "<0x0A>": 1, "a": 2, "b": 3, "aba": 4, "ab": 5},
              "merges": ["a b", "ab a"]}})";
  const Entries found = entries(6);
  EXPECT_EQ(found.at("tokenizer.ggml.model"), gguf_text("llama"));
  EXPECT_EQ(found.at("tokenizer.ggml.token_type"), i32s({2, 6, 1, 1, 1, 1}));
  EXPECT_EQ(found.at("tokenizer.ggml.scores"), f32s({0, 0, -2, -2, -1, 0}));
  EXPECT_EQ(found.at("tokenizer.ggml.add_space_prefix"),
            gguf_number<std::uint8_t>(GgufValueType::boolean, 1));
  EXPECT_EQ(entries(6, "gemma3").at("tokenizer.ggml.add_space_prefix"),
            gguf_number<std::uint8_t>(GgufValueType::boolean, 0));
}

TEST_F(GgufVocabulary, a_folder_without_a_tokenizer_is_named) {
  EXPECT_EQ(entries(3).at("tokenizer.ggml.model"), gguf_text("none"));
  EXPECT_NE(notices_.at(0).find("neither tokenizer.json nor tokenizer.model"), std::string::npos);
}

TEST_F(GgufVocabulary, other_kinds_and_damage_are_refused) {
  files_.tokenizer = R"({"model": {"type": "WordPiece", "vocab": {"a": 0}}})";
  EXPECT_TRUE(refused("is of the kind 'WordPiece'"));
  files_.tokenizer = R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})";
  EXPECT_TRUE(refused("the number of the token 'a' is none"));
  files_.tokenizer = R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]}})";
  EXPECT_TRUE(refused("is no merge of two tokens"));
  files_.tokenizer = R"({"model": {"type": "BPE", "vocab": {}}})";
  EXPECT_TRUE(refused("has no vocabulary"));
  files_.tokenizer = "{";
  EXPECT_TRUE(refused("tokenizer.json: it is not valid JSON"));
  files_.tokenizer = "";
  files_.sentencepiece = "version https://git-lfs";
  EXPECT_TRUE(refused("tokenizer.model: it is no SentencePiece model"));
}

}  // namespace
}  // namespace microscale
