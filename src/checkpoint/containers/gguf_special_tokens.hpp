// Which tokens begin, end and pad a text, and the template of a chat, as metadata of a GGUF file.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/containers/gguf_writer.hpp"

namespace microscale {

/// Trees of the files of a model folder; null where one is not there.
struct SpecialTokenFiles {
  const nlohmann::ordered_json& tokenizer;   // tokenizer.json
  const nlohmann::ordered_json& config;      // tokenizer_config.json
  const nlohmann::ordered_json& generation;  // generation_config.json
  const nlohmann::ordered_json& model;       // config.json
  std::string_view chat_template;            // chat_template.jinja; empty: none
};

/// Adds tokenizer.ggml.*_token_id and add_*_token, tokenizer.chat_template*. `find`: the number of
/// a token with this text. By tokenizer_config.json, then by config.json; whether a token is added,
/// by what tokenizer.json does.
void add_gguf_special_tokens(
    const SpecialTokenFiles& files,
    const std::function<std::optional<std::int64_t>(const std::string&)>& find,
    GgufMetadata& metadata);

}  // namespace microscale
