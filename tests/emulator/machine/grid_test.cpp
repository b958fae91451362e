#include "emulator/machine/grid.hpp"

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

// Thread 0 of each block; %r1 is its number, %r2 the number of blocks, %rd1 word 1 + its number.
const std::string one_a_block =
    "ld.param.u64 %rd30, [p]; mov.u32 %r50, %tid.x; setp.ne.u32 %p1, %r50, 0; @%p1 bra END;\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mul.wide.u32 %rd2, %r1, 4; "
    "add.s64 %rd1, %rd30, %rd2;\n";

LaunchOptions on_threads(int threads) {
  return {.instruction_budget = 50'000'000, .threads = threads};
}

// All blocks count up and wait for all: a barrier of the grid, as cooperative kernels have it.
TEST(Grid, blocks_that_wait_for_all_others_take_turns) {
  const std::string text = entry(one_a_block +
                                 "atom.acq_rel.gpu.global.add.u32 %r3, [%rd30], 1;\n"
                                 "WAIT: atom.acquire.gpu.global.add.u32 %r3, [%rd30], 0; "
                                 "setp.lt.u32 %p2, %r3, %r2; @%p2 bra WAIT;\n"
                                 "st.global.u32 [%rd1+4], %r3;\nEND:");
  for (const int threads : {1, 2, 3}) {
    const Ran ran =
        launch_words(text, std::vector<std::uint32_t>(65), shaped(64, 32, on_threads(threads)));
    EXPECT_EQ(ran.findings(), "");
    EXPECT_EQ(ran.words, std::vector<std::uint32_t>(65, 64));
  }
}

// As cooperative groups find the words of a grid's barrier: zero in each launch, the same for all
// blocks.
TEST(Grid, has_words_for_a_barrier_of_its_own) {
  const std::string text =
      entry(one_a_block +
            "mov.u32 %r4, %envreg1; mov.u32 %r5, %envreg2; mov.b64 %rd4, {%r5, %r4};\n"
            "atom.acq_rel.gpu.global.add.u32 %r3, [%rd4+4], 1;\n"
            "WAIT: ld.acquire.gpu.global.u32 %r3, [%rd4+4]; setp.lt.u32 %p2, %r3, %r2; @%p2 bra "
            "WAIT;\nst.global.u32 [%rd1], %r3;\nEND:");
  const Ran ran = launch_words(text, std::vector<std::uint32_t>(16), shaped(16, 32, on_threads(2)));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, std::vector<std::uint32_t>(16, 16));
}

// Each block waits for its right neighbour, which begins after it.
TEST(Grid, a_block_may_wait_for_one_that_begins_later) {
  const std::string text = entry(
      one_a_block +
      "add.u32 %r4, %r1, 1; setp.eq.u32 %p2, %r4, %r2; @%p2 bra TELL;\n"
      "WAIT: ld.acquire.gpu.global.u32 %r3, [%rd1+4]; setp.eq.u32 %p3, %r3, 0; @%p3 bra WAIT;\n"
      "TELL: st.release.gpu.global.u32 [%rd1], %r2;\nEND:");
  for (const int threads : {1, 2}) {
    const Ran ran =
        launch_words(text, std::vector<std::uint32_t>(40), shaped(40, 32, on_threads(threads)));
    EXPECT_EQ(ran.findings(), "");
    EXPECT_EQ(ran.words, std::vector<std::uint32_t>(40, 40));
  }
}

// What takes long without a write is no wait: it goes on after the others, and nothing is lost.
TEST(Grid, long_computations_are_ended) {
  const std::string text = entry(one_a_block +
                                 "mov.u32 %r3, 0;\nMORE: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, "
                                 "%r3, 50000; @%p2 bra MORE;\nst.global.u32 [%rd1], %r3;\nEND:");
  const Ran ran = launch_words(text, std::vector<std::uint32_t>(30), shaped(30, 32, on_threads(2)));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, std::vector<std::uint32_t>(30, 50000));
}

TEST(Grid, a_wait_for_nobody_meets_the_budget) {
  const std::string text = entry(one_a_block +
                                 "WAIT: ld.volatile.global.u32 %r3, [%rd30]; setp.eq.u32 %p2, %r3, "
                                 "0; @%p2 bra WAIT;\nEND:");
  const Ran ran = launch_words(text, {0}, shaped(4, 32, {.instruction_budget = 1'000'000}));
  EXPECT_EQ(ran.count(FindingKind::endless), 1) << ran.findings();
}

}  // namespace
}  // namespace microscale::emulator
