#include "checkpoint/word_sums.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace microscale {
namespace {

constexpr std::uint64_t signs = 0x8888888888888888;
constexpr std::uint64_t first_factor = 0x165667B19E3779F9, second_factor = 0xC2B2AE3D27D4EB4F;

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
  codes = (magnitudes & is_full) | (twice & from_two) | (four_times & from_one) |
          (eight_times & halves) | (codes & signs);
  step -= (from_two & half_step) + (from_one & 2 * half_step) + (halves & 3 * half_step);
  step &= mask_of(magnitudes);
}

// The first product moves lower bits up, the second the upper ones, which were moved down.
[[gnu::always_inline]] inline std::uint64_t mixed(std::uint64_t word, std::uint64_t step) {
  std::uint64_t hash = word * first_factor;
  hash = (hash ^ hash >> 32 ^ step) * second_factor;
  return hash ^ hash >> 29;
}

constexpr std::size_t chunk = 256;  // words whose steps are looked up at once

// For each word what its scale adds to the hash.
template <std::size_t per_scale>
[[gnu::always_inline]] inline void spread(const std::uint8_t* scales, const std::uint64_t* terms,
                                          std::size_t count, std::uint64_t* to) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < per_scale; ++j) to[i * per_scale + j] = terms[scales[i]];
  }
}

template <bool packed>
[[gnu::always_inline]] inline std::uint64_t sum_of_words(const ScaledWords& run) {
  alignas(64) std::uint64_t steps[chunk];
  std::uint64_t sum = 0, place = run.place;
  for (std::size_t done = 0; done < run.count; done += chunk) {
    const std::size_t count = std::min(run.count - done, chunk), scales = count / run.per_scale;
    const std::uint8_t* const from = run.scales + done / run.per_scale;
    if (run.per_scale == 1) {
      spread<1>(from, run.terms, scales, steps);
    } else if (run.per_scale == 2) {
      spread<2>(from, run.terms, scales, steps);
    } else {
      spread<4>(from, run.terms, scales, steps);
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t codes, step = steps[i];
      std::memcpy(&codes, run.words + (done + i) * sizeof codes, sizeof codes);
      if (packed) normalize(codes, step);
      sum += mixed(codes ^ (place + i * word_key), step);
    }
    place += count * word_key;
  }
  return sum;
}

std::uint64_t sum_portable(const ScaledWords& run) {
  return run.packed ? sum_of_words<true>(run) : sum_of_words<false>(run);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] std::uint64_t sum_avx2(const ScaledWords& run) {
  return run.packed ? sum_of_words<true>(run) : sum_of_words<false>(run);
}

[[gnu::target("avx512f,avx512dq,prefer-vector-width=512")]] std::uint64_t sum_avx512(
    const ScaledWords& run) {
  return run.packed ? sum_of_words<true>(run) : sum_of_words<false>(run);
}
#endif

#if defined(__x86_64__) && !defined(__clang__)
#define MICROSCALE_SUM_BY_LOOKUP
#define MICROSCALE_VBMI \
  gnu::target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,prefer-vector-width=512")
// Codes doubled by one lookup of a byte: 64 entries, sixteen codes doubled up to three times. Where
// each of 32 words has a 4 or a 6, as the scales of most quantizers make it, nothing is doubled.
using Words = std::uint64_t __attribute__((vector_size(64)));
using Bytes = std::uint8_t __attribute__((vector_size(64)));
constexpr std::size_t lanes = 8, tested = 32;  // words of a vector; of which is asked at once
constexpr std::uint64_t ones = 0x1111111111111111;

template <std::size_t per_scale>
[[MICROSCALE_VBMI, gnu::always_inline]] inline Words steps_of(const std::uint8_t* scales,
                                                              const std::uint64_t* terms) {
  constexpr std::size_t n = per_scale;
  return Words{terms[scales[0]],     terms[scales[1 / n]], terms[scales[2 / n]],
               terms[scales[3 / n]], terms[scales[4 / n]], terms[scales[5 / n]],
               terms[scales[6 / n]], terms[scales[7 / n]]};
}

[[MICROSCALE_VBMI, gnu::always_inline]] inline void normalize(Words& codes, Words& step) {
  constexpr std::uint64_t low_nibbles = 0x0F0F0F0F0F0F0F0F;
  constexpr std::uint64_t row = 0x1010101010101010;  // of the table: doubled once more
  const Bytes doubled = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9,  10, 11, 12, 13, 14, 15,
                         0, 2, 4, 5, 6, 7, 6, 7, 8, 10, 12, 13, 14, 15, 14, 15,
                         0, 4, 6, 7, 0, 0, 0, 0, 8, 12, 14, 15, 8,  8,  8,  8,
                         0, 6, 0, 0, 0, 0, 0, 0, 8, 14, 8,  8,  8,  8,  8,  8};
  const Bytes doubled_high = doubled << 4;
  const Words none = {};
  const Words middle = codes & ones << 1, high = codes & ones << 2;
  const Words full = high & codes << 1, any = codes & ~signs;
  Words rows = middle != 0 ? none + 2 * row : none + 3 * row;
  Words less = middle != 0 ? none + 2 * half_step : none + 3 * half_step;
  rows = high != 0 ? none + row : rows;
  less = high != 0 ? none + half_step : less;
  rows = full != 0 ? none : rows;
  less = full != 0 ? none : less;
  const Words low_index = (codes & low_nibbles) | rows;
  const Words high_index = (codes >> 4 & low_nibbles) | rows;
  codes = Words(__builtin_shuffle(doubled, Bytes(low_index))) |
          Words(__builtin_shuffle(doubled_high, Bytes(high_index)));
  step = any != 0 ? step - less : none;
}

// `count` words, whole vectors, into `sum`; `at`: the place of the next vector.
template <std::size_t per_scale, bool doubles>
[[MICROSCALE_VBMI, gnu::always_inline]] inline void add_words(const std::uint8_t* words,
                                                              const std::uint8_t* scales,
                                                              const std::uint64_t* terms,
                                                              std::size_t count, Words& at,
                                                              Words& sum) {
  for (std::size_t i = 0; i < count; i += lanes) {
    Words codes, step = steps_of<per_scale>(scales + i / per_scale, terms);
    std::memcpy(&codes, words + i * 8, sizeof codes);
    if (doubles) normalize(codes, step);
    Words hash = (codes ^ at) * first_factor;
    hash = (hash ^ hash >> 32 ^ step) * second_factor;
    sum += hash ^ hash >> 29;
    at += lanes * word_key;
  }
}

[[MICROSCALE_VBMI, gnu::always_inline]] inline bool all_full(const std::uint8_t* words) {
  Words lacks = {};
  for (std::size_t i = 0; i < tested; i += lanes) {
    Words codes;
    std::memcpy(&codes, words + i * 8, sizeof codes);
    lacks |= Words((codes & ones << 2 & codes << 1) == 0);
  }
  std::uint64_t any = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) any |= lacks[lane];
  return any == 0;
}

template <std::size_t per_scale>
[[MICROSCALE_VBMI, gnu::always_inline]] inline std::uint64_t sum_by_lookup(const ScaledWords& run) {
  Words sum = {}, at = Words{0, 1, 2, 3, 4, 5, 6, 7} * word_key + run.place;
  std::size_t i = 0;
  for (; i + tested <= run.count; i += tested) {
    const std::uint8_t *words = run.words + i * 8, *scales = run.scales + i / per_scale;
    if (!run.packed || all_full(words)) {
      add_words<per_scale, false>(words, scales, run.terms, tested, at, sum);
    } else {
      add_words<per_scale, true>(words, scales, run.terms, tested, at, sum);
    }
  }
  ScaledWords rest = run;
  rest.words += i * 8;
  rest.scales += i / per_scale;
  rest.count -= i;
  rest.place += i * word_key;
  std::uint64_t total = sum_portable(rest);
  for (std::size_t lane = 0; lane < lanes; ++lane) total += sum[lane];
  return total;
}

[[MICROSCALE_VBMI]] std::uint64_t sum_vbmi(const ScaledWords& run) {
  if (run.per_scale == 1) return sum_by_lookup<1>(run);
  return run.per_scale == 2 ? sum_by_lookup<2>(run) : sum_by_lookup<4>(run);
}
#endif

}  // namespace

std::uint64_t step_term(double step) {
  // A number that was FP32 is known by these bits of the FP64.
  return (std::bit_cast<std::uint64_t>(step) >> 29) * step_factor;
}

std::vector<WordSum> word_sums() {
  std::vector<WordSum> present{sum_portable};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) present.push_back(sum_avx2);
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  if (avx512) present.push_back(sum_avx512);
#if defined(MICROSCALE_SUM_BY_LOOKUP)
  if (avx512 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vbmi")) {
    present.push_back(sum_vbmi);
  }
#endif
#endif
  return present;
}

}  // namespace microscale
