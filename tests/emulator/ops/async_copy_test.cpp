#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

const std::string copy_and_read = ".shared .align 16 .b8 tile[512];\n" + own_word +
                                  "mov.u32 %r1, tile; mul.lo.u32 %r2, %r50, 4; add.u32 %r3, %r1, "
                                  "%r2; cp.async.ca.shared.global [%r3], [%rd32], 4;\n"
                                  "cp.async.commit_group;\n";
const std::string read_back =
    "ld.shared.u32 %r4, [%r3]; add.u32 %r5, %r4, 1; st.global.u32 [%rd32], %r5;";

TEST(AsyncCopies, land_by_the_time_they_are_waited_for) {
  for (const Completion completion : {Completion::eager, Completion::latest, Completion::random}) {
    const Ran ran =
        launch_words(entry(copy_and_read + "cp.async.wait_group 0;\n" + read_back),
                     std::vector<std::uint32_t>(64, 41), shaped(1, 64, {.completion = completion}));
    EXPECT_EQ(ran.findings(), "");
    for (const std::uint32_t word : ran.words) EXPECT_EQ(word, 42u);
  }
}

TEST(AsyncCopies, a_missing_wait_is_found) {
  const Ran ran = launch_words(entry(copy_and_read + read_back), std::vector<std::uint32_t>(64, 41),
                               shaped(1, 64));
  EXPECT_GE(ran.count(FindingKind::missing_wait), 1) << ran.findings();
}

TEST(AsyncCopies, bytes_beyond_the_source_size_are_zero) {
  const Ran ran = launch_words(entry(".shared .align 16 .b8 tile[16];\n" + own_word +
                                     "mov.u32 %r1, tile; mov.u32 %r2, 8; cp.async.cg.shared.global "
                                     "[%r1], [%rd30], 16, %r2; cp.async.wait_all;\n"
                                     "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; "
                                     "st.global.v4.u32 [%rd30], {%r4, %r5, %r6, %r7};"),
                               {1, 2, 3, 4}, shaped(1, 1));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{1, 2, 0, 0}));
}

}  // namespace
}  // namespace microscale::emulator
