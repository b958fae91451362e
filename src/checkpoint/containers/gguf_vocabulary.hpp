// A model folder's tokenizer as the metadata of a GGUF file: the way back of gguf_tokenizer.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/containers/gguf_writer.hpp"
#include "core/result.hpp"

namespace microscale {

/// Contents of files of a model folder; empty where one is not there.
struct TokenizerFiles {
  std::string tokenizer;      // tokenizer.json
  std::string config;         // tokenizer_config.json
  std::string sentencepiece;  // tokenizer.model
  std::string added_tokens;   // added_tokens.json
  std::string chat_template;  // chat_template.jinja
  std::string generation;     // generation_config.json
  std::string model;          // config.json
};

/// Adds tokenizer.ggml.*: byte-level BPE from tokenizer.json; SentencePiece from tokenizer.model,
/// or from a tokenizer.json made of one (BPE with byte_fallback), whose merges become scores. There
/// are `vocabulary` tokens, as the embedding has rows. `family`: the architecture. A folder without
/// a tokenizer gets none, with a notice; a tokenizer of another kind is a failure.
Status add_gguf_vocabulary(const TokenizerFiles& files, std::string_view family,
                           std::int64_t vocabulary, GgufMetadata& metadata,
                           std::vector<std::string>& notices);

}  // namespace microscale
