#include "checkpoint/containers/sentencepiece.hpp"

#include <cstring>
#include <optional>

namespace microscale {
namespace {

// One field of a message: a number, or the bytes of a text or of another message.
struct Field {
  std::uint64_t number = 0;  // of the field
  std::uint64_t value = 0;   // varint or fixed bits
  std::string_view bytes{};
};

class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  bool damaged() const { return damaged_; }

  /// Nothing at the end, or where the bytes are no fields.
  std::optional<Field> next() {
    if (rest_.empty() || damaged_) return std::nullopt;
    const std::uint64_t tag = varint();
    Field field{.number = tag >> 3};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.value = fixed(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.value = fixed(4);
        break;
      default:
        damaged_ = true;
    }
    return damaged_ ? std::nullopt : std::optional(field);
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    damaged_ = true;
    return 0;
  }

  std::string_view take(std::uint64_t length) {
    if (length > rest_.size()) {
      damaged_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }

  std::uint64_t fixed(std::size_t length) {
    std::uint64_t value = 0;
    const std::string_view taken = take(length);
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }

  std::string_view rest_;
  bool damaged_ = false;
};

bool read_piece(std::string_view bytes, TokenPiece& piece) {
  Message message(bytes);
  while (const auto field = message.next()) {
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2) {
      const auto bits = static_cast<std::uint32_t>(field->value);
      std::memcpy(&piece.score, &bits, sizeof bits);
    }
    if (field->number == 3) {
      if (field->value < 1 || field->value > 6) return false;
      piece.type = static_cast<PieceType>(field->value);
    }
  }
  return !message.damaged();
}

bool read_normalizer(std::string_view bytes, SentencePieceModel& model) {
  Message message(bytes);
  while (const auto field = message.next()) {
    if (field->number == 3) model.add_dummy_prefix = field->value != 0;
  }
  return !message.damaged();
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes) {
  SentencePieceModel model;
  Message message(bytes);
  bool known = true;
  while (const auto field = message.next()) {
    if (field->number == 1) known &= read_piece(field->bytes, model.pieces.emplace_back());
    if (field->number == 3) known &= read_normalizer(field->bytes, model);
    if (!known) break;
  }
  if (known && !message.damaged() && !model.pieces.empty()) return model;
  return Failure{ErrorCode::bad_input,
                 "it is no SentencePiece model; download it again, or remove it if tokenizer.json "
                 "is there"};
}

}  // namespace microscale
