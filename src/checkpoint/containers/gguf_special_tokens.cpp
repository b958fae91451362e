#include "checkpoint/containers/gguf_special_tokens.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/config_json.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

struct Special {
  const char* name;  // "bos" of bos_token and bos_token_id
  const char* key;   // llama.cpp's, spelled as it spells it
};
constexpr std::array<Special, 7> specials{{
    {"bos", "bos_token_id"},
    {"eos", "eos_token_id"},
    {"unk", "unknown_token_id"},
    {"sep", "seperator_token_id"},
    {"pad", "padding_token_id"},
    {"cls", "cls_token_id"},
    {"mask", "mask_token_id"},
}};

// A token stands in tokenizer_config.json as its text, or as an object that has it.
std::string token_text(const Json& config, const std::string& key) {
  const Json* token = member(config, key.c_str());
  if (token && token->is_object()) return text_member(*token, "content");
  return text_member(config, key.c_str());
}

// Of one number, or of several the first.
std::optional<std::int64_t> token_number(const Json* value) {
  if (value && value->is_array() && !value->empty()) value = &value->front();
  if (!value || !value->is_number_integer() || *value < 0) return std::nullopt;
  return value->get<std::int64_t>();
}

// Whether the tokenizer puts the token first ("bos") or last.
std::optional<bool> adds(const Json& tokenizer, bool first, const std::string& text) {
  const Json* post = member(tokenizer, "post_processor");
  if (!post) return std::nullopt;
  const Json* several = member(*post, "processors");
  const std::vector<Json> steps =
      several ? several->get<std::vector<Json>>() : std::vector<Json>{*post};
  std::optional<bool> answer;
  for (const Json& step : steps) {
    const std::string type = text_member(step, "type");
    if (type == "ByteLevel" && !answer) answer = false;
    const Json* single = member(step, "single");
    if (type != "TemplateProcessing" || !single || !single->is_array() || single->empty()) continue;
    const Json* token = member(first ? single->front() : single->back(), "SpecialToken");
    answer = token && text_member(*token, "id") == text;
  }
  return answer;
}

void add_chat_templates(const SpecialTokenFiles& files, GgufMetadata& metadata) {
  const Json* chat = member(files.config, "chat_template");
  if (chat && chat->is_string()) {
    metadata.set_text("tokenizer.chat_template", chat->get<std::string>());
  } else if (!files.chat_template.empty()) {
    metadata.set_text("tokenizer.chat_template", files.chat_template);
  } else if (chat && chat->is_array()) {
    std::vector<std::string> names;
    for (const Json& each : *chat) {
      const std::string name = text_member(each, "name"), text = text_member(each, "template");
      if (name.empty() || text.empty()) continue;
      if (name != "default") names.push_back(name);
      metadata.set_text("tokenizer.chat_template" + (name == "default" ? "" : "." + name), text);
    }
    if (!names.empty()) metadata.set_texts("tokenizer.chat_templates", names);
  }
}

}  // namespace

void add_gguf_special_tokens(
    const SpecialTokenFiles& files,
    const std::function<std::optional<std::int64_t>(const std::string&)>& find,
    GgufMetadata& metadata) {
  const Json* text_model = member(files.model, "text_config");
  std::optional<std::int64_t> end;
  for (const Special& special : specials) {
    const std::string name = special.name, text = token_text(files.config, name + "_token");
    std::optional<std::int64_t> id = text.empty() ? std::nullopt : find(text);
    const std::string key = name + "_token_id";
    if (!id) id = token_number(member(files.model, key.c_str()));
    if (!id && text_model) id = token_number(member(*text_model, key.c_str()));
    if (id)
      metadata.set_u32(std::string("tokenizer.ggml.") + special.key,
                       static_cast<std::uint32_t>(*id));
    if (name == "eos") end = id;
    if (name != "bos" && name != "eos") continue;
    auto added = adds(files.tokenizer, name == "bos", text);
    const Json* told = member(files.config, ("add_" + name + "_token").c_str());
    if (!added && told && told->is_boolean()) added = told->get<bool>();
    if (added) metadata.set_bool("tokenizer.ggml.add_" + name + "_token", *added);
  }
  // A turn of a chat may end by another token than a text.
  const Json* ends = member(files.generation, "eos_token_id");
  if (ends && ends->is_array() && ends->size() == 2 && end) {
    for (const Json& each : *ends) {
      const auto id = token_number(&each);
      if (id && id != end)
        metadata.set_u32("tokenizer.ggml.eot_token_id", static_cast<std::uint32_t>(*id));
    }
  }
  add_chat_templates(files, metadata);
}

}  // namespace microscale
