#include "checkpoint/containers/gguf_tokenizer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "checkpoint/containers/gguf_splits.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

// Kinds of tokens in tokenizer.ggml.token_type.
constexpr std::uint64_t control_token = 3, user_token = 4;

constexpr std::string_view space = "\xE2\x96\x81";  // U+2581: a space to SentencePiece

Failure bad(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }

std::string quoted(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What the metadata says of the tokenizer; texts are views of the file's header, or of `respelled`.
struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<std::uint64_t> types;  // of each token, or none at all
  std::vector<float> scores;         // likewise
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  std::vector<std::string> respelled;
};

class TokenizerWriter {
 public:
  explicit TokenizerWriter(const GgufFile& file) : file_(file) {}

  Result<GgufTokenizer> write() {
    const std::string_view model = text("tokenizer.ggml.model");
    const bool bytes = model == "gpt2";
    if (!bytes && model != "llama") {
      return bad(model.empty() ? std::string("the file holds no tokenizer")
                               : fmt::format("its tokenizer is of the kind {}, which is not known "
                                             "here",
                                             in_quotes(model)));
    }
    if (Status read = read_vocabulary(); !read) return read.failure();
    if (Status done = bytes ? write_byte_level() : write_sentence_piece(); !done)
      return done.failure();
    result_.config = config(!bytes);
    return std::move(result_);
  }

 private:
  std::string_view text(const char* key) const {
    const GgufValue* value = file_.value(key);
    return value ? value->text().value_or("") : "";
  }
  std::optional<bool> truth(const char* key) const {
    const GgufValue* value = file_.value(key);
    return value ? value->boolean() : std::nullopt;
  }
  // The number of a token, of those there are.
  std::optional<std::uint64_t> token(const char* key) const {
    const GgufValue* value = file_.value(key);
    const auto number = value ? value->whole() : std::nullopt;
    return number && *number < vocabulary_.tokens.size() ? number : std::nullopt;
  }
  bool is_gemma() const { return text("general.architecture").starts_with("gemma"); }

  Status read_vocabulary() {
    const GgufValue* tokens = file_.value("tokenizer.ggml.tokens");
    if (!tokens || tokens->element != GgufValueType::string || tokens->count == 0)
      return bad("tokenizer.ggml.tokens, the list of its tokens, is missing");
    for (GgufElements each(*tokens); const auto next = each.next();)
      vocabulary_.tokens.push_back(*next->text());
    if (const GgufValue* types = file_.value("tokenizer.ggml.token_type")) {
      for (GgufElements each(*types); const auto next = each.next();)
        vocabulary_.types.push_back(next->whole().value_or(0));
    }
    if (const GgufValue* scores = file_.value("tokenizer.ggml.scores")) {
      for (GgufElements each(*scores); const auto next = each.next();) {
        const auto score = static_cast<float>(next->number().value_or(NAN));
        vocabulary_.scores.push_back(std::isnan(score) ? -std::numeric_limits<float>::infinity()
                                                       : score);
      }
    }
    for (const auto count : {vocabulary_.types.size(), vocabulary_.scores.size()}) {
      if (count != 0 && count != vocabulary_.tokens.size())
        return bad(fmt::format("its tokenizer has {} tokens, and kinds or scores of {}",
                               vocabulary_.tokens.size(), count));
    }
    return success();
  }

  Status read_merges() {
    const GgufValue* merges = file_.value("tokenizer.ggml.merges");
    if (!merges || merges->element != GgufValueType::string)
      return bad("tokenizer.ggml.merges, the list of its merges, is missing");
    for (GgufElements each(*merges); const auto next = each.next();) {
      const std::string_view pair = *next->text();
      const std::size_t at = pair.find(' ', 1);
      if (at == std::string_view::npos)
        return bad(fmt::format("the merge {} is no pair of tokens", in_quotes(pair)));
      vocabulary_.merges.emplace_back(pair.substr(0, at), pair.substr(at + 1));
    }
    return success();
  }

  Status write_byte_level() {
    if (Status read = read_merges(); !read) return read;
    const std::string_view pre = text("tokenizer.ggml.pre");
    const auto known = find_gguf_split(pre.empty() ? "default" : pre);
    if (!known) {
      result_.notices.push_back(fmt::format(
          "how its tokenizer cuts text, {}, is not known here; tokenizer.json cuts as GPT-2 does, "
          "so compare it with the original model's",
          in_quotes(pre)));
    }
    const GgufSplit split = known.value_or(GgufSplit{});
    const bool own = !split.expression.empty();
    Json steps = Json::array();
    if (split.single_digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    if (own) {
      steps.push_back({{"type", "Split"},
                       {"pattern", {{"Regex", split.expression}}},
                       {"behavior", "Isolated"},
                       {"invert", false}});
    }
    const auto byte_level = [](bool prefix, bool trim, bool expression) {
      return Json{{"type", "ByteLevel"},
                  {"add_prefix_space", prefix},
                  {"trim_offsets", trim},
                  {"use_regex", expression}};
    };
    const bool prefix = truth("tokenizer.ggml.add_space_prefix").value_or(false);
    steps.push_back(byte_level(prefix, true, !own));
    const Json model{{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", nullptr},
                     {"continuing_subword_prefix", nullptr},
                     {"end_of_word_suffix", nullptr},
                     {"fuse_unk", false},
                     {"byte_fallback", false},
                     {"ignore_merges", split.whole_tokens}};
    write_text(split.nfc ? Json{{"type", "NFC"}} : Json(),
               Json{{"type", "Sequence"}, {"pretokenizers", steps}}, byte_level(true, false, true),
               byte_level(true, true, true), model);
    return success();
  }

  Status write_sentence_piece() {
    if (is_gemma()) respell_spaces();
    std::vector<float> order = vocabulary_.scores;
    if (is_gemma()) {  // its scores do not follow the merges; the tokens' places do
      order.resize(vocabulary_.tokens.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = -static_cast<float>(i);
    }
    if (file_.value("tokenizer.ggml.merges")) {
      if (Status read = read_merges(); !read) return read;
    } else if (order.empty()) {
      return bad("tokenizer.ggml.scores, the list of its tokens' scores, is missing");
    } else {
      for (const Merge& merge : merges_of(vocabulary_.tokens, order))
        vocabulary_.merges.emplace_back(merge.left, merge.right);
    }
    const bool prefix = !is_gemma() && truth("tokenizer.ggml.add_space_prefix").value_or(true);
    Json decoders =
        Json::array({{{"type", "Replace"}, {"pattern", {{"String", space}}}, {"content", " "}},
                     {{"type", "ByteFallback"}},
                     {{"type", "Fuse"}}});
    if (prefix) {
      decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    const auto unknown = token("tokenizer.ggml.unknown_token_id");
    const Json model{{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", unknown ? Json(vocabulary_.tokens[*unknown]) : Json()},
                     {"continuing_subword_prefix", nullptr},
                     {"end_of_word_suffix", nullptr},
                     {"fuse_unk", true},
                     {"byte_fallback", true},
                     {"ignore_merges", false}};
    const Json gemma_spaces{
        {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space}};
    const Json gemma_words{{"type", "Split"},
                           {"pattern", {{"String", " "}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
    const Json words{{"type", "Metaspace"},
                     {"replacement", space},
                     {"prepend_scheme", prefix ? "first" : "never"},
                     {"split", false}};
    write_text(is_gemma() ? gemma_spaces : Json(), is_gemma() ? gemma_words : words, Json(),
               Json{{"type", "Sequence"}, {"decoders", decoders}}, model);
    return success();
  }

  // Gemma's tokens of several spaces stand in the file as such.
  void respell_spaces() {
    auto& tokens = vocabulary_.tokens;
    vocabulary_.respelled.reserve(tokens.size());  // views of its strings stay
    for (std::string_view& name : tokens) {
      if (name.empty() || name.find_first_not_of(' ') != std::string_view::npos) continue;
      std::string spelled;
      for (std::size_t i = 0; i < name.size(); ++i) spelled += space;
      name = vocabulary_.respelled.emplace_back(std::move(spelled));
    }
  }

  std::string added_tokens() const {
    std::string list;
    for (std::size_t i = 0; i < vocabulary_.types.size(); ++i) {
      const std::uint64_t type = vocabulary_.types[i];
      if (type != control_token && type != user_token) continue;
      list += fmt::format(
          "{}{{\"id\":{},\"content\":{},\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
          "\"normalized\":false,\"special\":{}}}",
          list.empty() ? "" : ",", i, quoted(vocabulary_.tokens[i]), type == control_token);
    }
    return list;
  }

  // Puts the first token in front of every text, where the file asks for it; else `otherwise`.
  Json with_first_token(const Json& otherwise) const {
    const bool always = text("tokenizer.ggml.model") == "llama";  // unless the file says no
    const bool first = truth("tokenizer.ggml.add_bos_token").value_or(always);
    const bool last = truth("tokenizer.ggml.add_eos_token").value_or(false);
    const auto bos = token("tokenizer.ggml.bos_token_id");
    const auto eos = token("tokenizer.ggml.eos_token_id");
    Json one = Json::array(), two = Json::array(), specials = Json::object();
    const auto special = [&](std::uint64_t id, int sequence) {
      const std::string name(vocabulary_.tokens[id]);
      specials[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
      return Json{{"SpecialToken", {{"id", name}, {"type_id", sequence}}}};
    };
    for (int sequence = 0; sequence < 2; ++sequence) {
      Json parts = Json::array();
      if (first && bos) parts.push_back(special(*bos, sequence));
      parts.push_back({{"Sequence", {{"id", sequence ? "B" : "A"}, {"type_id", sequence}}}});
      if (last && eos) parts.push_back(special(*eos, sequence));
      if (sequence == 0) one = parts;
      two.insert(two.end(), parts.begin(), parts.end());
    }
    if (specials.empty()) return otherwise;
    return {{"type", "TemplateProcessing"},
            {"single", one},
            {"pair", two},
            {"special_tokens", specials}};
  }

  // The vocabulary and the merges are written piece by piece: a tree of them would be ten times as
  // large.
  void write_text(const Json& normalizer, const Json& pre_tokenizer, const Json& post_processor,
                  const Json& decoder, const Json& model) {
    const auto dump = [](const Json& json) {
      return json.dump(-1, ' ', false, Json::error_handler_t::replace);
    };
    std::string& out = result_.tokenizer;
    out = "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[" +
          added_tokens() + "],\n\"normalizer\":" + dump(normalizer) +
          ",\n\"pre_tokenizer\":" + dump(pre_tokenizer) +
          ",\n\"post_processor\":" + dump(with_first_token(post_processor)) +
          ",\n\"decoder\":" + dump(decoder) + ",\n\"model\":";
    std::string head = dump(model);
    head.pop_back();
    out += head + ",\"vocab\":{";
    std::unordered_set<std::string_view> written;
    for (std::size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
      if (!written.insert(vocabulary_.tokens[i]).second) continue;
      out += fmt::format("{}{}:{}", i ? ",\n" : "\n", quoted(vocabulary_.tokens[i]), i);
    }
    out += "},\"merges\":[";
    const char* between = "\n";
    for (const auto& [left, right] : vocabulary_.merges) {
      out += fmt::format("{}[{},{}]", between, quoted(left), quoted(right));
      between = ",\n";
    }
    out += "]}}\n";
  }

  std::string config(bool sentence_piece) const {
    Json config;
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    config["clean_up_tokenization_spaces"] = false;
    for (const auto& [key, from] : {std::pair{"bos_token", "tokenizer.ggml.bos_token_id"},
                                    std::pair{"eos_token", "tokenizer.ggml.eos_token_id"},
                                    std::pair{"unk_token", "tokenizer.ggml.unknown_token_id"},
                                    std::pair{"pad_token", "tokenizer.ggml.padding_token_id"}}) {
      if (const auto number = token(from)) config[key] = vocabulary_.tokens[*number];
    }
    config["add_bos_token"] = truth("tokenizer.ggml.add_bos_token").value_or(sentence_piece);
    config["add_eos_token"] = truth("tokenizer.ggml.add_eos_token").value_or(false);
    const GgufValue* context =
        file_.value(fmt::format("{}.context_length", text("general.architecture")));
    if (context && context->whole()) config["model_max_length"] = *context->whole();
    if (const std::string_view chat = text("tokenizer.chat_template"); !chat.empty())
      config["chat_template"] = chat;
    return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  const GgufFile& file_;
  Vocabulary vocabulary_;
  GgufTokenizer result_;
};

}  // namespace

Result<GgufTokenizer> gguf_tokenizer(const GgufFile& file) { return TokenizerWriter(file).write(); }

}  // namespace microscale
