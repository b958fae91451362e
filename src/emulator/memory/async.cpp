#include "emulator/memory/async.hpp"

#include <cstring>

namespace microscale::emulator {

void AsyncCopy::land() const {
  for (const AsyncPiece& piece : pieces)
    std::memcpy(piece.to, data.data() + piece.from, piece.bytes);
}

void AsyncCopy::poison() const {
  for (const AsyncPiece& piece : pieces) std::memset(piece.to, poison_byte, piece.bytes);
}

}  // namespace microscale::emulator
