#include "checkpoint/value_hash.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "checkpoint/tensor_hashes.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"

namespace microscale {
namespace {

constexpr std::uint64_t signs = 0x8888888888888888;
constexpr std::uint64_t odd_key = 0x9E3779B97F4A7C15;

// Both halves of the product of 64-bit numbers, folded.
std::uint64_t folded(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t mixed(std::uint64_t codes, double step, std::uint64_t place) {
  return folded(codes ^ place, std::bit_cast<std::uint64_t>(step) ^ (place * odd_key + 1));
}

// Twice each of sixteen E2M1 codes, none of which is 4 or 6 in magnitude.
std::uint64_t doubled(std::uint64_t codes) {
  constexpr std::uint8_t twice[8] = {0, 2, 4, 5, 6, 7, 0, 0};  // 0, 0.5, 1, 1.5, 2, 3
  std::uint64_t result = codes & signs;
  for (int at = 0; at < 64; at += 4) {
    result |= static_cast<std::uint64_t>(twice[codes >> at & 7]) << at;
  }
  return result;
}

std::uint64_t hash_of_e2m1(std::uint64_t codes, double step, std::uint64_t place) {
  if (step < 0) {
    step = -step;
    codes ^= signs;
  }
  if (step == 0) codes &= signs;
  if ((codes & ~signs) == 0) return mixed(codes, 0, place);
  // 4 and 6 are the codes with both upper bits of the magnitude.
  while ((codes & codes << 1 & 0x4444444444444444) == 0) {
    codes = doubled(codes);
    step /= 2;
  }
  return mixed(codes, step, place);
}

}  // namespace

ValueHash::ValueHash(std::string_view name, const BlockCoding& coding)
    : coding_(coding),
      key_(hash_of({reinterpret_cast<const std::uint8_t*>(name.data()), name.size()}).low) {
  for (std::size_t scale = 0; scale < steps_.size(); ++scale) {
    const auto byte = static_cast<std::uint8_t>(scale);
    if (info(coding.format).e8m0_scale) {
      steps_[scale] = static_cast<double>(decode_e8m0(byte));
    } else {
      const float value = E4M3::decode(byte);
      steps_[scale] = static_cast<double>(coding.divisor != 0 ? value / coding.divisor
                                                              : value * coding.multiplier);
    }
  }
}

std::uint64_t ValueHash::of(std::int64_t first, std::span<const std::uint8_t> codes,
                            std::span<const std::uint8_t> scales) const {
  const FormatInfo& format = info(coding_.format);
  const bool packed = format.code_bits == 4;
  if (scales.empty()) return 0;
  const std::size_t per_block = codes.size() / 8 / scales.size();
  const std::uint8_t* at = codes.data();
  std::uint64_t place = key_ + static_cast<std::uint64_t>(code_bytes(format, first) / 8) * odd_key;
  std::uint64_t sum = 0;
  for (const std::uint8_t scale : scales) {
    const double step = steps_[scale];
    for (std::size_t i = 0; i < per_block; ++i, at += 8, place += odd_key) {
      std::uint64_t word;
      std::memcpy(&word, at, sizeof word);
      sum += packed ? hash_of_e2m1(word, step, place) : mixed(word, step, place);
    }
  }
  return sum;
}

std::int64_t ValueHash::first_nan(std::span<const std::uint8_t> codes,
                                  std::span<const std::uint8_t> scales) const {
  const FormatInfo& format = info(coding_.format);
  const std::size_t block = codes.size() / scales.size();
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (std::isnan(steps_[scales[i]])) return static_cast<std::int64_t>(i);
    if (format.code_bits == 4) continue;
    for (const std::uint8_t code : codes.subspan(i * block, block)) {
      if ((code & 0x7F) == 0x7F) return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

}  // namespace microscale
