// How byte-level tokenizers cut text before they merge: by tokenizer.ggml.pre.
#pragma once

#include <optional>
#include <string_view>

namespace microscale {

struct GgufSplit {
  std::string_view expression;  // empty: that of GPT-2, which the tokenizers library has built in
  bool single_digits = false;   // before that, each digit by itself
  bool nfc = false;             // text is composed first
  bool whole_tokens = false;    // a piece that is a token is not merged from others
};

/// Nothing for a name that is not known.
std::optional<GgufSplit> find_gguf_split(std::string_view pre);

}  // namespace microscale
