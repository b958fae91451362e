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
  bool operator==(const GgufSplit&) const = default;
};

/// Nothing for a name that is not known.
std::optional<GgufSplit> find_gguf_split(std::string_view pre);

/// The name for a tokenizer that cuts so; where none does all of it alike, one that cuts at the
/// same places. Nothing if none does.
std::optional<std::string_view> gguf_pre_of(const GgufSplit& split);

}  // namespace microscale
