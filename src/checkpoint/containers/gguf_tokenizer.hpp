// tokenizer.json and tokenizer_config.json of a model whose GGUF file is all there is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/containers/gguf_file.hpp"
#include "core/result.hpp"

namespace microscale {

struct GgufTokenizer {
  std::string tokenizer;             // the text of tokenizer.json
  std::string config;                // of tokenizer_config.json
  std::vector<std::string> notices;  // one sentence each
};

/// Byte-level BPE (tokenizer.ggml.model "gpt2") and SentencePiece ("llama"). A failure says what is
/// missing, or which kind is not known.
Result<GgufTokenizer> gguf_tokenizer(const GgufFile& file);

/// Pairs of pieces in the order in which SentencePiece merges them.
struct Merge {
  std::string_view left, right;
  bool operator==(const Merge&) const = default;
};

/// From a vocabulary without merges: each token that consists of two others, the best token first
/// (`scores`, one for each token). Views of `tokens`. Of equal tokens the first counts.
std::vector<Merge> merges_of(const std::vector<std::string_view>& tokens,
                             const std::vector<float>& scores);

}  // namespace microscale
