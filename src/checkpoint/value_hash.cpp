#include "checkpoint/value_hash.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "checkpoint/tensor_hashes.hpp"
#include "checkpoint/word_sums.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"

namespace microscale {
namespace {

constexpr std::uint8_t both_signs = 0x88;  // of a byte

constexpr std::size_t chunk = 2048;  // bytes of codes that are turned at once

// One pass without a way out, which becomes one of vectors.
bool any_is(std::span<const std::uint8_t> bytes, std::uint8_t mask, std::uint8_t value) {
  std::uint8_t found = 0;
  for (const std::uint8_t byte : bytes) found |= (byte & mask) == value;
  return found != 0;
}

}  // namespace

ValueHash::ValueHash(std::string_view name, const BlockCoding& coding)
    : coding_(coding),
      key_(hash_of({reinterpret_cast<const std::uint8_t*>(name.data()), name.size()}).low) {
  const bool packed = info(coding.format).code_bits == 4;
  for (std::size_t scale = 0; scale < terms_.size(); ++scale) {
    const auto byte = static_cast<std::uint8_t>(scale);
    float value = 0;
    if (info(coding.format).e8m0_scale) {
      value = decode_e8m0(byte);
    } else {
      value = E4M3::decode(byte);
      value = coding.divisor != 0 ? value / coding.divisor : value * coding.multiplier;
    }
    terms_[scale] = step_term(packed ? std::fabs(value) : value);
    if (!packed) continue;
    flip_[scale] = value < 0 ? both_signs : 0;
    keep_[scale] = value == 0 ? both_signs : 0xFF;
    // A positive scale may be 0 too, beside a very small multiplier.
    turns_ |= value <= 0 && (byte & 0x7F) != 0 && (byte & 0x80) == 0;
  }
}

std::uint64_t ValueHash::of(std::int64_t first, std::span<const std::uint8_t> codes,
                            std::span<const std::uint8_t> scales) const {
  static const WordSum sum_of = word_sums().back();
  const FormatInfo& format = info(coding_.format);
  const bool packed = format.code_bits == 4, e8m0 = format.e8m0_scale;
  if (scales.empty()) return 0;
  const std::size_t block = codes.size() / scales.size();
  ScaledWords run{
      .words = codes.data(),
      .scales = scales.data(),
      .terms = terms_.data(),
      .count = codes.size() / 8,
      .per_scale = block / 8,
      .place = key_ + static_cast<std::uint64_t>(code_bytes(format, first) / 8) * word_key,
      .packed = packed};
  const bool turns =
      packed && !e8m0 && (turns_ || any_is(scales, 0x80, 0x80) || any_is(scales, 0xFF, 0));
  if (!turns) return sum_of(run);
  std::uint64_t sum = 0;
  std::array<std::uint8_t, chunk> turned;
  while (!scales.empty()) {
    const std::size_t blocks = std::min(scales.size(), chunk / block);
    const auto some = codes.first(blocks * block);
    turn(some, scales.first(blocks), turned);
    run.words = turned.data();
    run.scales = scales.data();
    run.count = some.size() / 8;
    sum += sum_of(run);
    run.place += run.count * word_key;
    scales = scales.subspan(blocks);
    codes = codes.subspan(some.size());
  }
  return sum;
}

// Under a scale of 0 only signs count, and under a negative one they are turned.
void ValueHash::turn(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales,
                     std::span<std::uint8_t> to) const {
  const std::size_t block = codes.size() / scales.size();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::uint8_t scale = scales[i / block];
    to[i] = static_cast<std::uint8_t>((codes[i] ^ flip_[scale]) & keep_[scale]);
  }
}

std::int64_t first_nan(Format of, std::span<const std::uint8_t> codes,
                       std::span<const std::uint8_t> scales) {
  const FormatInfo& format = info(of);
  const std::uint8_t mask = format.e8m0_scale ? 0xFF : 0x7F;
  const std::uint8_t nan = format.e8m0_scale ? e8m0_nan : 0x7F;
  const bool look_at_codes = format.code_bits == 8;
  if (!any_is(scales, mask, nan) && !(look_at_codes && any_is(codes, 0x7F, 0x7F))) return -1;
  const std::size_t block = codes.size() / scales.size();
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const bool bad = (scales[i] & mask) == nan ||
                     (look_at_codes && any_is(codes.subspan(i * block, block), 0x7F, 0x7F));
    if (bad) return static_cast<std::int64_t>(i);
  }
  return -1;
}

std::uint64_t hash_of_tile(const MatrixSlice& slice, const Tile& tile, const BlockCoding& coding,
                           std::span<const std::uint8_t> codes,
                           std::span<const std::uint8_t> scales) {
  if (slice.turns.size() < 2) {
    return ValueHash(slice.turns.empty() ? slice.module : slice.turns.front(), coding)
        .of(tile.row * slice.cols + tile.col, codes, scales);
  }
  std::vector<ValueHash> modules;
  for (const std::string& module : slice.turns) modules.emplace_back(module, coding);
  const auto count = static_cast<std::int64_t>(modules.size());
  const std::size_t row_codes = codes.size() / static_cast<std::size_t>(tile.rows);
  const std::size_t row_scales = scales.size() / static_cast<std::size_t>(tile.rows);
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const std::int64_t row = tile.row + i;
    const auto at = static_cast<std::size_t>(i);
    sum += modules[static_cast<std::size_t>(row % count)].of(
        row / count * slice.cols + tile.col, codes.subspan(at * row_codes, row_codes),
        scales.subspan(at * row_scales, row_scales));
  }
  return sum;
}

}  // namespace microscale
