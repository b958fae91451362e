#include "emulator/ptx/targets.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "emulator/ptx/parse_text.hpp"
#include "support/paths.hpp"

namespace microscale::emulator::ptx {
namespace {

// The frame in which scripts/golden/make_ptx_targets.py shows each instruction to ptxas.
Kernel framed(const std::string& instruction) {
  return parse_kernel(
      ".reg .pred %p<4>; .reg .b8 %b<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<8>;"
      ".reg .f32 %f<8>; .reg .f64 %e<8>; .reg .b128 %x<2>; .shared .align 128 .b8 smem[1024];\n" +
      instruction);
}

std::string failure(const std::string& instruction, const char* target, Version version = {9, 0}) {
  const Kernel kernel = framed(instruction);
  const Status status = check(kernel[0], target_of(target).value(), version);
  return status ? "" : status.failure().message;
}

TEST(PtxTargets, agree_with_ptxas_on_every_instruction_and_target) {
  std::ifstream file(microscale::testing::test_data() + "/emulator/ptx/targets.txt");
  ASSERT_TRUE(file);
  std::vector<Target> targets;
  std::string line;
  int instructions = 0;
  while (std::getline(file, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string taken, version, word;
    words >> taken;
    if (taken == "targets") {
      while (words >> word) targets.push_back(target_of(word).value());
      continue;
    }
    words >> version;
    std::string text;
    std::getline(words, text);
    SCOPED_TRACE(text);
    ASSERT_EQ(taken.size(), targets.size());
    const Kernel kernel = framed(text);
    ASSERT_EQ(kernel.function.code.size(), 1u);
    std::string ours;
    for (const Target& target : targets) ours += check(kernel[0], target, {9, 0}) ? '+' : '-';
    EXPECT_EQ(ours, taken);
    ++instructions;
    const std::size_t first = taken.find('+');
    if (first == std::string::npos) continue;
    const Version needed{std::stoi(version), std::stoi(version.substr(version.find('.') + 1))};
    EXPECT_TRUE(check(kernel[0], targets[first], needed).ok()) << version;
    // The target itself may be what is new in that version; then ptxas says nothing about the
    // instruction.
    const Target old = targets[first];
    const Version of_target = old.number < 80    ? Version{6, 3}
                              : old.number < 86  ? Version{7, 0}
                              : old.number < 89  ? Version{7, 1}
                              : old.number < 90  ? Version{7, 8}
                              : old.number < 100 ? (old.suffix ? Version{8, 0} : Version{7, 8})
                              : old.number < 103 ? Version{8, 6}
                                                 : Version{8, 7};
    if (needed <= of_target) continue;
    const Version before =
        needed.minor > 0 ? Version{needed.major, needed.minor - 1} : Version{needed.major - 1, 8};
    EXPECT_FALSE(check(kernel[0], old, before).ok()) << "before " << version;
  }
  EXPECT_GT(instructions, 300);
  EXPECT_GE(targets.size(), 18u);
}

TEST(PtxTargets, say_what_is_needed_and_what_the_module_is_for) {
  EXPECT_EQ(failure("wgmma.fence.sync.aligned;", "sm_120f"),
            "PTX line 6: wgmma.fence.sync.aligned needs sm_90a; this module is for sm_120f");
  EXPECT_EQ(failure("cvt.rn.satfinite.e2m1x2.f32 %b0, %f1, %f2;", "sm_90a"),
            "PTX line 6: cvt.rn.satfinite.e2m1x2.f32 needs sm_100a or sm_100f or a later one with "
            "a or f; "
            "this module is for sm_90a");
  EXPECT_EQ(failure("redux.sync.add.s32 %r0, %r1, -1;", "sm_80", {6, 5}),
            "PTX line 6: redux.sync.add.s32 needs PTX 7.0; this module is PTX 6.5");
  EXPECT_EQ(failure("frobnicate.b32 %r0;", "sm_90a"),
            "PTX line 6: frobnicate.b32 is no instruction of PTX 9.0 that is known here");
  EXPECT_EQ(failure("add.foo.s32 %r0, %r1, %r2;", "sm_90a"),
            "PTX line 6: add.foo.s32 carries '.foo', which add cannot");
  EXPECT_EQ(failure("cvt.rn.e4m3x2.f32 %h0, %f1, %f2;", "sm_100a"),
            "PTX line 6: cvt.rn.e4m3x2.f32 is a combination that no target has");
}

TEST(PtxTargets, names_of_targets) {
  EXPECT_EQ(target_of("sm_90a"), (Target{90, 'a'}));
  EXPECT_EQ(name_of(Target{120, 'f'}), "sm_120f");
  EXPECT_EQ(name_of(Target{80, 0}), "sm_80");
  for (const char* word :
       {"sm_91", "sm_80a", "sm_90f", "sm_", "sm_100b", "sm_100af", "compute_90", "sm_99999999999"})
    EXPECT_FALSE(target_of(word)) << word;
}

TEST(PtxTargets, check_all_names_the_first_line_that_is_wrong) {
  const Kernel kernel = parse_kernel("ret;\nwgmma.fence.sync.aligned;\nret;");
  EXPECT_TRUE(check_all(kernel.function, {90, 'a'}, {9, 0}).ok());
  const Status status = check_all(kernel.function, {90, 0}, {9, 0});
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(status.failure().message.starts_with("PTX line 6: ")) << status.failure().message;
}

}  // namespace
}  // namespace microscale::emulator::ptx
