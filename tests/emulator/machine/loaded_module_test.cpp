#include "microscale/error.hpp"
#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(LoadedModule, variables_begin_as_the_text_says) {
  const std::string before =
      ".global .align 4 .u32 g[3] = {5, 6};\n.const .align 4 .u32 c[2] = {70, 80};\n";
  const Ran ran =
      launch_words(entry("ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [g+4]; ld.const.u32 %r2, "
                         "[c+4]; ld.global.u32 %r3, [g+8];\n"
                         "st.global.v2.u32 [%rd1], {%r1, %r2}; st.global.u32 [%rd1+8], %r3;",
                         before),
                   std::vector<std::uint32_t>(4, 9), shaped(1, 1));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{6, 80, 0, 9}));
}

TEST(LoadedModule, a_global_variable_can_be_found_from_outside) {
  Memory memory;
  const Module module(memory, entry("", ".global .align 4 .u32 g[3] = {5, 6};\n"));
  std::uint32_t values[3] = {};
  ASSERT_NE(module.variable("g"), 0u);
  memory.read(values, module.variable("g"), 12);
  EXPECT_EQ(values[1], 6u);
  EXPECT_EQ(module.variable("h"), 0u);
}

TEST(LoadedModule, unknown_targets_and_broken_texts_are_refused) {
  Memory memory;
  EXPECT_THROW(Module(memory, entry("", "", "sm_7")), Error);
  EXPECT_THROW(Module(memory, "nonsense"), Error);
  EXPECT_THROW(Module(memory, entry("bra NOWHERE;")).info("k"), Error);
}

}  // namespace
}  // namespace microscale::emulator
