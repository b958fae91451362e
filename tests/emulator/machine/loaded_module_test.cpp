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

TEST(LoadedModule, variables_may_begin_as_addresses) {
  const std::string before =
      ".global .align 4 .u32 g[3] = {5, 6, 7};\n.const .align 4 .u32 c[2] = {70, 80};\n"
      ".func f { ret; }\n.func h { ret; }\n"
      ".global .align 8 .u64 t[5] = {g+4, generic(g), generic(c)+4, f, h};\n";
  const Ran ran = launch_words(
      entry("ld.param.u64 %rd1, [p]; ld.global.u64 %rd2, [t]; ld.global.u32 %r1, [%rd2];\n"
            "ld.global.u64 %rd3, [t+8]; ld.u32 %r2, [%rd3]; ld.global.u64 %rd4, [t+16]; "
            "ld.u32 %r3, [%rd4];\nld.global.u64 %rd5, [t+24]; ld.global.u64 %rd6, [t+32]; "
            "setp.ne.u64 %p1, %rd5, %rd6; selp.u32 %r4, 1, 0, %p1;\n"
            "st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};",
            before),
      std::vector<std::uint32_t>(4), shaped(1, 1));
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words, (std::vector<std::uint32_t>{6, 5, 80, 1}));
  Memory memory;
  EXPECT_THROW(Module(memory, entry("", ".global .u64 t = nowhere;\n")), Error);
  EXPECT_THROW(Module(memory, entry("", ".shared .u32 s;\n.global .u64 t = s;\n")), Error);
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
