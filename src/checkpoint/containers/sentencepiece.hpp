// The pieces of a SentencePiece model (tokenizer.model), a message of protocol buffers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace microscale {

/// The numbers are those of SentencePiece, and of tokenizer.ggml.token_type.
enum class PieceType : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

struct TokenPiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
  bool operator==(const TokenPiece&) const = default;
};

struct SentencePieceModel {
  std::vector<TokenPiece> pieces;  // by token
  bool add_dummy_prefix = true;    // a space goes in front of every text
};

/// A failure says that it is no such model; an empty one is none.
Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes);

}  // namespace microscale
