#include "checkpoint/containers/gguf_unpack.hpp"

#include <cstring>

namespace microscale {
namespace {

constexpr std::uint64_t low_nibbles = 0x0F0F0F0F0F0F0F0F;

std::uint64_t load(const std::uint8_t* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Eight bytes with a nibble each as four bytes: the first in the low nibble of the first.
std::uint32_t joined(std::uint64_t nibbles) {
  nibbles = (nibbles | nibbles >> 4) & 0x00FF00FF00FF00FF;
  nibbles = (nibbles | nibbles >> 8) & 0x0000FFFF0000FFFF;
  return static_cast<std::uint32_t>(nibbles | nibbles >> 16);
}

// `bytes` (8 or 16) hold as many elements in their low nibbles, and the next ones in the high.
template <int bytes>
void unpack(const std::uint8_t* from, std::uint8_t* to) {
  for (int at = 0; at < bytes; at += 8) {
    const std::uint64_t word = load(from + at);
    const std::uint32_t low = joined(word & low_nibbles), high = joined(word >> 4 & low_nibbles);
    std::memcpy(to + at / 2, &low, sizeof low);
    std::memcpy(to + bytes / 2 + at / 2, &high, sizeof high);
  }
}

std::uint8_t e4m3_of(std::uint8_t unsigned_scale) {
  const auto magnitude = static_cast<std::uint8_t>(unsigned_scale & 0x7F);
  return magnitude == 0x7F ? 0 : magnitude;
}

}  // namespace

std::optional<Format> format_of_gguf(GgufType type) {
  if (type == GgufType::mxfp4) return Format::mxfp4;
  if (type == GgufType::nvfp4) return Format::nvfp4;
  return std::nullopt;
}

bool unpack_gguf_blocks(GgufType type, std::span<const std::uint8_t> blocks,
                        std::span<std::uint8_t> codes, std::span<std::uint8_t> scales) {
  const auto bytes = static_cast<std::size_t>(info(type).bytes);
  const std::size_t count = blocks.size() / bytes;
  bool known = true;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* block = blocks.data() + i * bytes;
    if (type == GgufType::mxfp4) {
      known &= block[0] != 0xFF;
      scales[i] = block[0];
      unpack<16>(block + 1, codes.data() + i * 16);
      continue;
    }
    for (std::size_t run = 0; run < 4; ++run) {
      known &= block[run] != 0xFF;
      scales[i * 4 + run] = e4m3_of(block[run]);
      unpack<8>(block + 4 + 8 * run, codes.data() + i * 32 + run * 8);
    }
  }
  return known;
}

}  // namespace microscale
