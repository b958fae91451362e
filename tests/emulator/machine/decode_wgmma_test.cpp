// wgmma that the decoder takes, and what it refuses, with the reason.
#include <gtest/gtest.h>

#include <string>

#include "microscale/emulator.hpp"
#include "microscale/error.hpp"

namespace microscale::testing {
namespace {

std::string registers(const char* prefix, int first, int count) {
  std::string list = "{";
  for (int i = 0; i < count; ++i)
    list += (i ? ", %" : "%") + std::string(prefix) + std::to_string(first + i);
  return list + "}";
}

/// "" if kernel k of this instruction decodes; else what was said.
std::string refusal(const std::string& instruction, const std::string& target = "sm_90a") {
  const std::string text = ".version 9.0\n.target " + target +
                           "\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<160>; .reg "
                           ".f32 %f<160>; .reg .b64 %rd<2>; .reg .pred %p<2>;\nmov.u64 %rd0, 0;\n" +
                           instruction + ";\nret;\n}\n";
  try {
    emulator::Memory memory;
    emulator::Module module(memory, text);
    module.info("k");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string multiply(const std::string& shape, const std::string& operands) {
  return "wgmma.mma_async.sync.aligned." + shape + " " + operands;
}

const std::string both = ", %rd0, %rd0, %p0", mixed = ", {%r0, %r1, %r2, %r3}, %rd0, %p0";

TEST(DecodeWgmma, takes_what_exists) {
  EXPECT_EQ(refusal("wgmma.fence.sync.aligned"), "");
  EXPECT_EQ(refusal("wgmma.commit_group.sync.aligned"), "");
  EXPECT_EQ(refusal("wgmma.wait_group.sync.aligned 3"), "");
  for (int n = 8; n <= 256; n += 8) {
    const std::string shape = "m64n" + std::to_string(n);
    const std::string d = registers("f", 0, n / 2), half = registers("r", 4, n / 4);
    for (const char* type : {"f16.f16", "bf16.bf16"}) {
      EXPECT_EQ(refusal(multiply(shape + "k16.f32." + type, d + both + ", 1, -1, 0, 1")), "");
      EXPECT_EQ(refusal(multiply(shape + "k16.f32." + type, d + mixed + ", -1, 1, 1")), "");
    }
    EXPECT_EQ(refusal(multiply(shape + "k16.f16.f16.f16", half + both + ", 1, 1, 1, 1")), "");
    EXPECT_EQ(refusal(multiply(shape + "k8.f32.tf32.tf32", d + mixed + ", 1, 1")), "");
    for (const char* type : {"e4m3.e4m3", "e4m3.e5m2", "e5m2.e4m3", "e5m2.e5m2"}) {
      EXPECT_EQ(refusal(multiply(shape + "k32.f32." + type, d + both + ", 1, 1")), "");
      EXPECT_EQ(refusal(multiply(shape + "k32.f16." + type, half + mixed + ", 1, 1")), "");
    }
  }
  EXPECT_EQ(refusal(multiply("m64n8k32.s32.u8.s8.satfinite", registers("r", 4, 4) + both)), "");
  EXPECT_EQ(
      refusal(multiply("m64n8k32.f32.e4m3.e4m3", registers("f", 0, 4) + ", %rd0, %rd0, 1, 1, 1")),
      "");
  EXPECT_EQ(refusal(multiply("m64n8k32.f32.e4m3.e4m3",
                             registers("f", 0, 4) + ", %rd0, %rd0, !%p0, 1, 1")),
            "");
}

TEST(DecodeWgmma, refuses_with_the_reason) {
  const auto refused = [](const std::string& instruction, const std::string& part) {
    const std::string said = refusal(instruction);
    EXPECT_NE(said.find(part), std::string::npos) << instruction << "\n" << said;
    EXPECT_NE(said.find("line 8"), std::string::npos) << said;
  };
  const std::string d = registers("f", 0, 4), f16 = "m64n8k16.f32.f16.f16",
                    fp8 = "m64n8k32.f32.e4m3.e4m3";
  refused("wgmma.fence.aligned", "needs .sync.aligned");
  refused("wgmma.fence.sync.aligned 1", "operands that it cannot have");
  refused("wgmma.wait_group.sync.aligned %r0", "needs a number of groups");
  refused("wgmma.wait_group.sync.aligned -1", "needs a number of groups");
  refused(multiply("m64n12k16.f32.f16.f16", d + both + ", 1, 1, 0, 0"), "8 to 256 in eights");
  refused(multiply("m64n264k16.f32.f16.f16", d + both + ", 1, 1, 0, 0"), "8 to 256 in eights");
  refused(multiply("m64n8k8.f32.f16.f16", d + both + ", 1, 1, 0, 0"), "K must be 16");
  refused(multiply("m64n8k16.f32.f16.bf16", d + both + ", 1, 1, 0, 0"), "do not go together");
  refused(multiply("m64n8k16.f16.bf16.bf16", "{%r4, %r5}" + both + ", 1, 1, 0, 0"), "are .f32");
  refused(multiply("m64n40k32.s32.s8.s8", registers("r", 4, 20) + both), "multiple of 16");
  refused(multiply("m64n8k256.s32.b1.b1.and.popc", registers("r", 4, 4) + both), "");
  refused(multiply("sp.m64n8k32.f32.f16.f16", d + both + ", 1, 1, 0, 0"), "");
  refused(multiply(f16, registers("f", 0, 3) + both + ", 1, 1, 0, 0"), "3 registers where 4");
  refused(multiply(f16, "{%f0, %f1, %f1, %f2}" + both + ", 1, 1, 0, 0"), "a register twice");
  refused(multiply(f16, "{%r0, %r4, %r5, %r6}" + mixed + ", 1, 1, 0"), "accumulator and in A");
  refused(multiply(f16, "{%f0, _, %f1, %f2}" + both + ", 1, 1, 0, 0"), "no register");
  refused(multiply(f16, d + ", {%r0, %r1}, %rd0, %p0, 1, 1, 0"), "2 registers where 4");
  refused(multiply(f16, d + both + ", 1, 1"), "6 operands where 8");
  refused(multiply(f16, d + mixed + ", 1, 1, 0, 0"), "8 operands where 7");
  refused(multiply(fp8, d + both + ", 1, 1, 0, 0"), "8 operands where 6");
  refused(multiply(f16, d + both + ", 2, 1, 0, 0"), "neither 1 nor -1");
  refused(multiply(f16, d + both + ", 1, 1, 0, 2"), "neither 0 nor 1");
  refused(multiply(f16, d + ", %r0, %rd0, %p0, 1, 1, 0, 0"), "of 32 bits as .b64");
  refused(multiply(f16, d + ", %rd0, %rd0, %r0, 1, 1, 0, 0"), "should be a predicate");
}

TEST(DecodeWgmma, is_for_sm_90a_alone) {
  for (const char* target : {"sm_90", "sm_100a", "sm_103f", "sm_120a"}) {
    const std::string said = refusal("wgmma.fence.sync.aligned", target);
    EXPECT_NE(said.find("needs sm_90a; this module is for " + std::string(target)),
              std::string::npos)
        << said;
  }
}

}  // namespace
}  // namespace microscale::testing
