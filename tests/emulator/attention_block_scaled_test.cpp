// Attention by block-scaled matrix instructions, as the kernels for consumer Blackwell compute it,
// on the emulator: against the FP64 model of the mode, to within what FP32 leaves open.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "cuda/attention.hpp"
#include "cuda/kernels.hpp"
#include "device_bytes.hpp"
#include "emulator/device.hpp"
#include "microscale/error.hpp"
#include "support/attention_modes.hpp"
#include "support/block_attention.hpp"

namespace microscale::emulator {
namespace {

using test::BlockAttention;
using test::BlockAttentionCase;

/// One for all tests: reading its kernels takes longer than running them.
EmulatorDevice& device() {
  static EmulatorDevice made(12, 0, {.instruction_budget = 2'000'000'000});
  return made;
}

class AttentionBlockScaled : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_names("sm_120f").empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

::testing::AssertionResult near(const BlockAttentionCase& c) {
  BlockAttention attention(c);
  return attention.compare(attention.run(device()));
}

/// What the second product may be: V's blocks along the tokens, or along d with codes of
/// probabilities, or with FP16.
struct Second {
  bool along_tokens;
  ProbabilityRule rule;
};
constexpr Second seconds[] = {{true, ProbabilityRule::two_level},
                              {false, ProbabilityRule::two_level},
                              {false, ProbabilityRule::exact}};
constexpr AttentionAccuracy accuracies[] = {AttentionAccuracy::one_term,
                                            AttentionAccuracy::two_term};

BlockAttentionCase with(const Second& second, AttentionAccuracy accuracy,
                        BlockAttentionCase c = {}) {
  c.along_tokens = second.along_tokens;
  c.rule = second.rule;
  c.accuracy = accuracy;
  return c;
}

TEST_F(AttentionBlockScaled, is_the_model_of_its_mode_at_every_width) {
  for (const Second& second : seconds)
    for (const AttentionAccuracy accuracy : accuracies)
      for (const std::int64_t d : {64, 128, 256})
        EXPECT_TRUE(near(with(second, accuracy, {.kv_len = 150, .q_len = 20, .d = d})))
            << second.along_tokens << " rule " << static_cast<int>(second.rule) << " accuracy "
            << static_cast<int>(accuracy) << " d " << d;
}

}  // namespace
}  // namespace microscale::emulator
