// SentencePiece models made by hand.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/containers/gguf_builder.hpp"
#include "checkpoint/containers/sentencepiece.hpp"

namespace microscale::testing {

/// Pieces shorter than 100 bytes.
inline std::string sentencepiece_file(const std::vector<TokenPiece>& pieces) {
  std::string file;
  for (const TokenPiece& piece : pieces) {
    const std::string message = std::string("\x0A") + static_cast<char>(piece.text.size()) +
                                piece.text + "\x15" + little_endian(piece.score) + "\x18" +
                                static_cast<char>(piece.type);
    file += std::string("\x0A") + static_cast<char>(message.size()) + message;
  }
  return file;
}

/// A normalizer that puts no space in front.
inline std::string sentencepiece_without_prefix() { return std::string("\x1A\x02\x18\x00", 4); }

}  // namespace microscale::testing
