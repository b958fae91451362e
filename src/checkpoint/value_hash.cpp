#include "checkpoint/value_hash.hpp"

#include <algorithm>
#include <array>
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

constexpr std::uint8_t both_signs = 0x88;  // of a byte

constexpr std::size_t chunk = 256;  // words that are hashed at once

// For each word of eight bytes the bits of the number, as FP64, that its codes are multiplied by.
using Steps = std::array<std::uint64_t, chunk>;

// All ones where a bit of x is set, else 0: what a compiler would make of a choice is a jump.
[[gnu::always_inline]] inline std::uint64_t mask_of(std::uint64_t x) {
  return 0 - ((x | (0 - x)) >> 63);
}

// A word of E2M1 codes doubled until one of them is 4 or 6, its step halved as often; without
// branches, so that the loop around it becomes one of vectors.
[[gnu::always_inline]] inline void normalize(std::uint64_t& codes, std::uint64_t& step) {
  constexpr std::uint64_t ones = 0x1111111111111111;
  const std::uint64_t magnitudes = codes & ~signs;
  const std::uint64_t low = codes & ones, middle = codes >> 1 & ones, high = codes >> 2 & ones;
  const std::uint64_t lone = low & ~middle;  // 0.5, or 2 or 3 where `high` is set too
  // 0.5 is code 1 and 1 is 2; above that doubling adds 2 to the code.
  const std::uint64_t twice = magnitudes + ((middle | high) << 1) + (lone & ~high);
  const std::uint64_t four_times =
      magnitudes + (middle << 2) + lone + (lone << 1);        // of 0.5 to 1.5
  const std::uint64_t eight_times = (low << 1) + (low << 2);  // of 0.5
  const std::uint64_t is_full = mask_of(high & middle), from_two = mask_of(high) & ~is_full;
  const std::uint64_t below_two = ~(is_full | from_two), from_one = mask_of(middle) & below_two;
  const std::uint64_t halves = below_two & ~from_one;
  const std::uint64_t doublings =
      3 + (is_full << 1) + is_full + (from_two << 1) + from_one;  // masks are -1
  codes = (magnitudes & is_full) | (twice & from_two) | (four_times & from_one) |
          (eight_times & halves) | (codes & signs);
  step = (step - (doublings << 52)) & mask_of(magnitudes);
}

[[gnu::always_inline]] inline std::uint64_t sum_of_words(const std::uint8_t* words,
                                                         const Steps& steps, std::size_t count,
                                                         std::uint64_t place, bool packed) {
  constexpr std::uint64_t of_step = 0x9E3779B1, first = 0x165667B19E3779F9,
                          second = 0xC2B2AE3D27D4EB4F;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t codes, step = steps[i];
    std::memcpy(&codes, words + i * sizeof codes, sizeof codes);
    if (packed) normalize(codes, step);
    // A number that was FP32 is known by these bits of the FP64.
    step = (step >> 29 & 0xFFFFFFFF) * of_step;
    // The first product moves lower bits up, the second the upper ones, which were moved down.
    std::uint64_t hash = (codes ^ (place + i * odd_key)) * first;
    hash = (hash ^ hash >> 32 ^ step) * second;
    sum += hash ^ hash >> 29;
  }
  return sum;
}

using SumOfWords = std::uint64_t (*)(const std::uint8_t*, const Steps&, std::size_t, std::uint64_t,
                                     bool);

std::uint64_t sum_portable(const std::uint8_t* words, const Steps& steps, std::size_t count,
                           std::uint64_t place, bool packed) {
  return packed ? sum_of_words(words, steps, count, place, true)
                : sum_of_words(words, steps, count, place, false);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] std::uint64_t sum_avx2(const std::uint8_t* words, const Steps& steps,
                                               std::size_t count, std::uint64_t place,
                                               bool packed) {
  return packed ? sum_of_words(words, steps, count, place, true)
                : sum_of_words(words, steps, count, place, false);
}

[[gnu::target("avx512f,avx512dq,prefer-vector-width=512")]] std::uint64_t sum_avx512(
    const std::uint8_t* words, const Steps& steps, std::size_t count, std::uint64_t place,
    bool packed) {
  return packed ? sum_of_words(words, steps, count, place, true)
                : sum_of_words(words, steps, count, place, false);
}

// The same sum by other instructions.
SumOfWords choose_sum() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return sum_avx512;
  return __builtin_cpu_supports("avx2") ? sum_avx2 : sum_portable;
}
#else
SumOfWords choose_sum() { return sum_portable; }
#endif

}  // namespace

ValueHash::ValueHash(std::string_view name, const BlockCoding& coding)
    : coding_(coding),
      key_(hash_of({reinterpret_cast<const std::uint8_t*>(name.data()), name.size()}).low) {
  const bool packed = info(coding.format).code_bits == 4;
  for (std::size_t scale = 0; scale < steps_.size(); ++scale) {
    const auto byte = static_cast<std::uint8_t>(scale);
    float value = 0;
    if (info(coding.format).e8m0_scale) {
      value = decode_e8m0(byte);
    } else {
      value = E4M3::decode(byte);
      value = coding.divisor != 0 ? value / coding.divisor : value * coding.multiplier;
    }
    Step& step = steps_[scale];
    step.bits =
        std::bit_cast<std::uint64_t>(static_cast<double>(packed ? std::fabs(value) : value));
    step.flip = packed && value < 0 ? both_signs : 0;
    step.keep = packed && value == 0 ? both_signs : 0xFF;
    step.changes = packed && value <= 0;
  }
}

std::uint64_t ValueHash::of(std::int64_t first, std::span<const std::uint8_t> codes,
                            std::span<const std::uint8_t> scales) const {
  static const SumOfWords sum_of = choose_sum();
  const FormatInfo& format = info(coding_.format);
  const bool packed = format.code_bits == 4;
  if (scales.empty()) return 0;
  const std::size_t per_block = codes.size() / 8 / scales.size();
  std::uint64_t place = key_ + static_cast<std::uint64_t>(code_bytes(format, first) / 8) * odd_key;
  std::uint64_t sum = 0;
  Steps steps;
  std::array<std::uint8_t, chunk * 8> turned;
  while (!scales.empty()) {
    const std::size_t blocks = std::min(scales.size(), chunk / per_block);
    const std::size_t words = blocks * per_block;
    const auto some = codes.first(words * 8);
    bool changes = false;
    std::uint64_t* to = steps.data();
    for (const std::uint8_t scale : scales.first(blocks)) {
      const Step& step = steps_[scale];
      changes |= step.changes;
      *to++ = step.bits;
      for (std::size_t i = 1; i < per_block; ++i) *to++ = step.bits;
    }
    if (changes) turn(some, scales.first(blocks), turned);
    sum += sum_of(changes ? turned.data() : some.data(), steps, words, place, packed);
    place += words * odd_key;
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
    const Step& step = steps_[scales[i / block]];
    to[i] = static_cast<std::uint8_t>((codes[i] ^ step.flip) & step.keep);
  }
}

std::int64_t ValueHash::first_nan(std::span<const std::uint8_t> codes,
                                  std::span<const std::uint8_t> scales) const {
  const FormatInfo& format = info(coding_.format);
  const std::uint8_t magnitude = format.e8m0_scale ? 0xFF : 0x7F;
  const std::uint8_t nan = format.e8m0_scale ? e8m0_nan : 0x7F;
  const std::size_t block = codes.size() / scales.size();
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if ((scales[i] & magnitude) == nan) return static_cast<std::int64_t>(i);
    if (format.code_bits == 4) continue;
    for (const std::uint8_t code : codes.subspan(i * block, block)) {
      if ((code & 0x7F) == 0x7F) return static_cast<std::int64_t>(i);
    }
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
