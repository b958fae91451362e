// Calls of block_attention.hpp on one emulated consumer Blackwell GPU, and the modes that it has.
#pragma once

#include "emulator/device.hpp"
#include "support/block_attention.hpp"

namespace microscale::emulator {

using test::BlockAttention;
using test::BlockAttentionCase;

/// One for all tests: reading its kernels takes longer than running them.
inline EmulatorDevice& consumer_blackwell() {
  static EmulatorDevice made(12, 0, {.instruction_budget = 2'000'000'000});
  return made;
}

inline ::testing::AssertionResult near_model(const BlockAttentionCase& c) {
  BlockAttention attention(c);
  return attention.compare(attention.run(consumer_blackwell()));
}

/// What the second product may be: V's blocks along the tokens, or along d with codes of
/// probabilities, or with FP16.
struct Second {
  bool along_tokens;
  ProbabilityRule rule;
};
inline constexpr Second seconds[] = {{true, ProbabilityRule::two_level},
                                     {false, ProbabilityRule::two_level},
                                     {false, ProbabilityRule::exact}};
inline constexpr AttentionAccuracy accuracies[] = {AttentionAccuracy::one_term,
                                                   AttentionAccuracy::two_term};

inline BlockAttentionCase with(const Second& second, AttentionAccuracy accuracy,
                               BlockAttentionCase c = {}) {
  c.along_tokens = second.along_tokens;
  c.rule = second.rule;
  c.accuracy = accuracy;
  return c;
}

}  // namespace microscale::emulator
