#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(MemoryWords, cache_hints_and_orders_are_understood_wherever_they_stand) {
  const Ran ran = launch_words(
      entry(
          "ld.param.u64 %rd1, [p]; ld.global.nc.L1::no_allocate.v2.b32 {%r1, %r2}, [%rd1];\n"
          "ld.relaxed.gpu.global.u32 %r3, [%rd1+8]; st.release.cta.global.u32 [%rd1+12], %r3;\n"
          "st.global.cs.u32 [%rd1], %r2; ld.volatile.u32 %r4, [%rd1]; prefetch.global.L2 [%rd1];"),
      {1, 2, 3, 4}, shaped(1, 1));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{2, 2, 3, 3}));
}

}  // namespace
}  // namespace microscale::emulator
