#include "checkpoint/containers/gguf_vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "checkpoint/config_json.hpp"
#include "checkpoint/containers/gguf_special_tokens.hpp"
#include "checkpoint/containers/gguf_splits.hpp"
#include "checkpoint/containers/sentencepiece.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view space = "\xE2\x96\x81";            // U+2581: a space to SentencePiece
constexpr std::string_view byte_space = "\xC4\xA0";           // U+0120: a space to byte-level BPE
constexpr float padding_score = -10000, added_score = -1000;  // as llama.cpp's converter has them

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// Some models mark tokens as ordinary that no text should become.
bool looks_special(std::string_view text) {
  constexpr std::string_view bar = "\xEF\xBD\x9C";  // U+FF5C
  const auto between = [&](const std::string& begin, const std::string& end) {
    return text.size() >= begin.size() + end.size() && text.starts_with(begin) &&
           text.ends_with(end);
  };
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" ||
         between("<|", "|>") || between("<unused", ">") ||
         between("<" + std::string(bar), std::string(bar) + ">");
}

class VocabularyWriter {
 public:
  VocabularyWriter(const TokenizerFiles& files, std::string_view family, std::int64_t vocabulary,
                   GgufMetadata& metadata, std::vector<std::string>& notices)
      : files_(files), family_(family), metadata_(metadata), notices_(notices) {
    const auto count = static_cast<std::size_t>(vocabulary);
    for (std::size_t i = 0; i < count; ++i) tokens_.push_back(fmt::format("[PAD{}]", i));
    scores_.assign(count, padding_score);
    types_.assign(count, static_cast<std::int32_t>(PieceType::unused));
  }

  Status write() {
    for (const auto& [name, text, tree] :
         {std::tuple("tokenizer.json", &files_.tokenizer, &tokenizer_),
          std::tuple("tokenizer_config.json", &files_.config, &config_),
          std::tuple("added_tokens.json", &files_.added_tokens, &added_file_),
          std::tuple("generation_config.json", &files_.generation, &generation_),
          std::tuple("config.json", &files_.model, &model_)}) {
      if (text->empty()) continue;
      auto parsed = parse_json(*text);
      if (!parsed) return bad(fmt::format("{}: {}", name, parsed.failure().message));
      if (!parsed.value().is_object()) return bad(fmt::format("{} is no JSON object", name));
      *tree = std::move(parsed.value());
    }
    const Json* bpe = member(tokenizer_, "model");
    const bool is_bpe = bpe && text_member(*bpe, "type") == "BPE";
    const Json* fallback = bpe ? member(*bpe, "byte_fallback") : nullptr;
    const bool is_pieces = fallback && fallback->is_boolean() && fallback->get<bool>();
    Status written = success();
    if (!files_.sentencepiece.empty() && (!is_bpe || is_pieces)) {
      written = write_sentencepiece();
    } else if (is_bpe) {
      written = is_pieces ? write_merged_pieces(*bpe) : write_byte_level(*bpe);
    } else if (bpe) {
      return bad(
          fmt::format("tokenizer.json is of the kind {}; byte-level BPE and SentencePiece are "
                      "written into GGUF",
                      in_quotes(text_member(*bpe, "type"))));
    } else {
      notices_.push_back(
          "there is neither tokenizer.json nor tokenizer.model, so the file gets no tokenizer, and "
          "llama.cpp takes and gives numbers of tokens only");
      metadata_.set_text("tokenizer.ggml.model", "none");
      return success();
    }
    if (!written) return written;
    if (outside_ > 0) {
      notices_.push_back(fmt::format(
          "{} tokens of the tokenizer have numbers beyond vocab_size ({}), and are left out",
          outside_, tokens_.size()));
    }
    add_specials();
    return success();
  }

 private:
  void set(std::uint64_t id, std::string text, float score, PieceType type) {
    if (id >= tokens_.size()) {
      ++outside_;
      return;
    }
    tokens_[id] = std::move(text);
    scores_[id] = score;
    types_[id] = static_cast<std::int32_t>(type);
  }

  void set_added(std::uint64_t id, const std::string& text, bool special) {
    const bool control = special || looks_special(text);
    set(id, control ? text : replaced(text, space, " "), added_score,
        control ? PieceType::control : PieceType::user_defined);
  }

  // Tokens beside the vocabulary. tokenizer_config.json lists them by number, tokenizer.json too.
  void set_all_added() {
    for (const auto& [text, id] : added_file_.items()) {
      if (id.is_number_unsigned())
        set(id.get<std::uint64_t>(), text, added_score, PieceType::user_defined);
    }
    const auto special = [](const Json& token) {
      const Json* mark = member(token, "special");
      return mark && mark->is_boolean() && mark->get<bool>();
    };
    const Json* listed = member(tokenizer_, "added_tokens");
    for (std::size_t i = 0; listed && i < listed->size(); ++i) {
      const Json& token = (*listed)[i];
      const Json* id = token.is_object() ? member(token, "id") : nullptr;
      if (id && id->is_number_unsigned())
        set_added(id->get<std::uint64_t>(), text_member(token, "content"), special(token));
    }
    if (listed) return;
    const Json* decoder = member(config_, "added_tokens_decoder");
    if (!decoder || !decoder->is_object()) return;
    for (const auto& [key, token] : decoder->items()) {
      std::uint64_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || !token.is_object()) continue;
      set_added(id, text_member(token, "content"), special(token));
    }
  }

  // The two texts of a merge, which stand in one or in two.
  static std::optional<std::pair<std::string, std::string>> merge_of(const Json& merge) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
    if (!merge.is_string()) return std::nullopt;
    const auto& text = merge.get_ref<const std::string&>();
    const std::size_t at = text.find(' ', 1);
    if (at == std::string::npos) return std::nullopt;
    return std::pair(text.substr(0, at), text.substr(at + 1));
  }

  // Of tokenizer.json: the vocabulary as ordinary tokens.
  Status set_vocabulary(const Json& bpe) {
    const Json* vocabulary = member(bpe, "vocab");
    if (!vocabulary || !vocabulary->is_object() || vocabulary->empty())
      return bad("tokenizer.json has no vocabulary");
    for (const auto& [text, id] : vocabulary->items()) {
      if (!id.is_number_unsigned())
        return bad(
            fmt::format("tokenizer.json: the number of the token {} is none", in_quotes(text)));
      set(id.get<std::uint64_t>(), text, padding_score, PieceType::normal);
    }
    return success();
  }

  Status read_merges(const Json& bpe, std::vector<std::pair<std::string, std::string>>& merges) {
    const Json* list = member(bpe, "merges");
    if (!list || !list->is_array()) return bad("tokenizer.json has no list of merges");
    for (const Json& each : *list) {
      auto merge = merge_of(each);
      if (!merge)
        return bad(fmt::format("tokenizer.json: {} is no merge of two tokens", each.dump()));
      merges.push_back(std::move(*merge));
    }
    return success();
  }

  Status write_byte_level(const Json& bpe) {
    if (Status read = set_vocabulary(bpe); !read) return read;
    set_all_added();
    std::vector<std::pair<std::string, std::string>> pairs;
    if (Status read = read_merges(bpe, pairs); !read) return read;
    std::vector<std::string> merges;
    for (auto& [left, right] : pairs)
      merges.push_back(replaced(left, " ", byte_space) + " " + replaced(right, " ", byte_space));
    metadata_.set_text("tokenizer.ggml.model", "gpt2");
    metadata_.set_text("tokenizer.ggml.pre", pre_of(bpe));
    metadata_.set_texts("tokenizer.ggml.tokens", tokens_);
    metadata_.set_i32s("tokenizer.ggml.token_type", types_);
    metadata_.set_texts("tokenizer.ggml.merges", merges);
    return success();
  }

  // All steps of a part of tokenizer.json, whose sequences have them in `list`.
  std::vector<Json> steps_of(const char* part, const char* list) const {
    const Json* found = member(tokenizer_, part);
    if (!found || !found->is_object()) return {};
    const Json* several = member(*found, list);
    if (several && several->is_array()) return several->get<std::vector<Json>>();
    return {*found};
  }

  // How the tokenizer cuts text before it merges, by llama.cpp's name for it.
  std::string pre_of(const Json& bpe) {
    GgufSplit split;
    std::vector<std::string> expressions;
    const auto yes = [](const Json& step, const char* key) {
      const Json* value = member(step, key);
      return value && value->is_boolean() && value->get<bool>();
    };
    for (const Json& step : steps_of("pre_tokenizer", "pretokenizers")) {
      const std::string type = text_member(step, "type");
      const Json* pattern = member(step, "pattern");
      if (type == "Digits" && yes(step, "individual_digits")) split.single_digits = true;
      if (type == "Split" && pattern) expressions.push_back(text_member(*pattern, "Regex"));
    }
    for (const Json& step : steps_of("normalizer", "normalizers"))
      split.nfc |= text_member(step, "type") == "NFC";
    split.whole_tokens = yes(bpe, "ignore_merges");
    if (!expressions.empty()) split.expression = expressions.front();
    const auto known = expressions.size() > 1 ? std::nullopt : gguf_pre_of(split);
    if (known) return std::string(*known);
    const std::string guess = family_.starts_with("qwen") ? "qwen2" : "default";
    notices_.push_back(
        fmt::format("how tokenizer.json cuts text is not known here; the file says {}, so compare "
                    "the tokens of "
                    "some text with the original's",
                    in_quotes(guess)));
    return guess;
  }

  // SentencePiece merges the pair with the best score; of a list of merges the first is the best.
  Status write_merged_pieces(const Json& bpe) {
    if (Status read = set_vocabulary(bpe); !read) return read;
    std::vector<std::pair<std::string, std::string>> merges;
    if (Status read = read_merges(bpe, merges); !read) return read;
    std::unordered_map<std::string, std::size_t> ranks;
    for (std::size_t i = 0; i < merges.size(); ++i)
      ranks.emplace(merges[i].first + merges[i].second, i);
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (types_[id] != static_cast<std::int32_t>(PieceType::normal)) continue;
      const std::string& text = tokens_[id];
      const auto rank = ranks.find(text);
      const std::size_t place = rank == ranks.end() ? merges.size() : rank->second;
      scores_[id] = static_cast<float>(-static_cast<std::int64_t>(place));
      const bool byte = text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
      if (byte) set(id, text, 0, PieceType::byte);
    }
    set_all_added();
    const std::string unknown = text_member(bpe, "unk_token");
    if (const auto id = find(unknown); id && !unknown.empty())
      set(static_cast<std::uint64_t>(*id), unknown, 0, PieceType::unknown);
    bool prefix = false;
    for (const Json& step : steps_of("normalizer", "normalizers"))
      prefix |= text_member(step, "type") == "Prepend";
    for (const Json& step : steps_of("pre_tokenizer", "pretokenizers")) {
      const std::string scheme = text_member(step, "prepend_scheme");
      prefix |= text_member(step, "type") == "Metaspace" && scheme != "never";
    }
    put_pieces(prefix);
    return success();
  }

  Status write_sentencepiece() {
    auto model = parse_sentencepiece(files_.sentencepiece);
    if (!model) return bad("tokenizer.model: " + model.failure().message);
    std::uint64_t id = 0;
    for (TokenPiece& piece : model.value().pieces) {
      set(id++, std::move(piece.text), piece.score, piece.type);
    }
    set_all_added();
    put_pieces(model.value().add_dummy_prefix);
    return success();
  }

  void put_pieces(bool prefix) {
    const Json* told = member(config_, "add_prefix_space");
    if (told && told->is_boolean()) prefix = told->get<bool>();
    if (family_ == "gemma3") prefix = false;
    metadata_.set_text("tokenizer.ggml.model", "llama");
    metadata_.set_text("tokenizer.ggml.pre", "default");
    metadata_.set_texts("tokenizer.ggml.tokens", tokens_);
    metadata_.set_f32s("tokenizer.ggml.scores", scores_);
    metadata_.set_i32s("tokenizer.ggml.token_type", types_);
    metadata_.set_bool("tokenizer.ggml.add_space_prefix", prefix);
  }

  std::optional<std::int64_t> find(const std::string& text) const {
    const auto found = std::find(tokens_.begin(), tokens_.end(), text);
    if (found == tokens_.end()) return std::nullopt;
    return found - tokens_.begin();
  }

  void add_specials() {
    add_gguf_special_tokens(
        {tokenizer_, config_, generation_, model_, files_.chat_template},
        [this](const std::string& text) { return find(text); }, metadata_);
  }

  const TokenizerFiles& files_;
  const std::string_view family_;
  GgufMetadata& metadata_;
  std::vector<std::string>& notices_;
  Json tokenizer_ = Json::object(), config_ = Json::object(), added_file_ = Json::object(),
       generation_ = Json::object(), model_ = Json::object();
  std::vector<std::string> tokens_;  // by number
  std::vector<float> scores_;
  std::vector<std::int32_t> types_;
  std::size_t outside_ = 0;  // tokens beyond the vocabulary
};

}  // namespace

Status add_gguf_vocabulary(const TokenizerFiles& files, std::string_view family,
                           std::int64_t vocabulary, GgufMetadata& metadata,
                           std::vector<std::string>& notices) {
  return VocabularyWriter(files, family, vocabulary, metadata, notices).write();
}

}  // namespace microscale
