// The loop inside of ValueHash: a sum over words of eight bytes, by the widest instructions that
// the processor has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace microscale {

/// Words are told apart by their place, `place + i * word_key` for the word i.
inline constexpr std::uint64_t word_key = 0x9E3779B97F4A7C15;

/// What of a step, the number that codes are multiplied by, goes into a sum. Half of a step gives
/// `half_step` less, whatever the step.
std::uint64_t step_term(double step);
inline constexpr std::uint64_t step_factor = 0x9E3779B1;
inline constexpr std::uint64_t half_step = step_factor << 23;

/// Words in a row that share scales: `count` of them, `per_scale` (1, 2 or 4) for each scale byte,
/// whose step_term is in the table `terms`. `packed`: a word is sixteen E2M1 codes, which are
/// doubled (and their step halved) until one of them is 4 or 6; without a value there, only signs
/// count. `count` is a multiple of `per_scale`.
struct ScaledWords {
  const std::uint8_t* words = nullptr;
  const std::uint8_t* scales = nullptr;
  const std::uint64_t* terms = nullptr;  // by scale byte
  std::size_t count = 0, per_scale = 1;
  std::uint64_t place = 0;
  bool packed = false;
};

using WordSum = std::uint64_t (*)(const ScaledWords& run);

/// All that this processor runs, the fastest last. They give the same.
std::vector<WordSum> word_sums();

}  // namespace microscale
