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

TEST_F(AttentionBlockScaled, is_the_model_of_its_mode) {
  EXPECT_TRUE(near({}));
  EXPECT_TRUE(near({.kv_len = 200, .q_len = 70}));
  EXPECT_TRUE(near({.kv_len = 200, .q_len = 70, .causal = true}));
}

}  // namespace
}  // namespace microscale::emulator
