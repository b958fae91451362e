// --arg by the types of a kernel's parameters: numbers without a type, structs, tensor maps.
#include <gtest/gtest.h>

#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

// scale(float const* x, float* y, int by, float4 shift): y[tid] = by * x[tid] + shift.y
const std::string scale_ptx =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry _Z5scalePKfPfi6float4(.param .u64 a, .param .u64 b, .param .u32 c, "
    ".param .align 16 .b8 d[16]) {\n"
    ".reg .b32 %r<5>; .reg .f32 %f<5>; .reg .b64 %d<6>;\n"
    "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u32 %r1, [c]; ld.param.f32 %f1, "
    "[d+4];\nmov.u32 %r2, %tid.x; mul.wide.u32 %d3, %r2, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, "
    "%d2, %d3;\nld.global.f32 %f2, [%d4]; cvt.rn.f32.s32 %f3, %r1; fma.rn.f32 %f4, %f2, %f3, %f1;\n"
    "st.global.f32 [%d5], %f4; ret;\n}\n";

Outcome scaled(const Scratch& scratch, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {
      "ptx", "run", scratch.write("k.ptx", scale_ptx), "--block", "32", "--print", "1:3"};
  for (const std::string& each : arguments) {
    words.push_back("--arg");
    words.push_back(each);
  }
  return microscale(words);
}

TEST(ParameterBytes, gives_numbers_the_type_of_the_parameter) {
  const Scratch scratch;
  const Outcome outcome = scaled(scratch, {"f32[32]:iota", "f32[32]", "-2", "{0,0.5,0,0}"});
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  EXPECT_EQ(outcome.out, "arg1: 0.5 -1.5 -3.5 ...\n");
}

TEST(ParameterBytes, refuses_what_the_parameter_is_not) {
  const Scratch scratch;
  const std::string x = "f32[32]:iota", y = "f32[32]", shift = "{0,0,0,0}";
  const std::pair<std::vector<std::string>, std::string> mistakes[] = {
      {{"f32:3", y, "2", shift}, "--arg 0 (float const*): a value of f32 was given for a pointer"},
      {{"3", y, "2", shift}, "--arg 0 (float const*): a number was given for a pointer"},
      {{"f64[32]:iota", y, "2", shift}, "an array of f64 was given; the kernel reads f32"},
      {{x, y, "f32:2", shift}, "--arg 2 (int): a value of f32 was given; write the number alone"},
      {{x, y, "u64:2", shift}, "a value of u64 was given"},
      {{x, y, "2.5", shift}, "is no whole number"},
      {{x, y, x, shift}, "--arg 2 (int): an array was given for a number"},
      {{x, y, "2", "{0,0}"}, "--arg 3 (float4): 2 numbers were given; it has 4"},
      {{x, y, "2"}, "3 --arg for a kernel that takes 4: float const*, float*, int, float4"},
      {{x, y, "2", "{0,0"}, "no } behind the fields"}};
  for (const auto& [arguments, says] : mistakes) {
    const Outcome outcome = scaled(scratch, arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << says << "\n" << outcome.err;
  }
}

TEST(ParameterBytes, lays_structs_out_as_c_does) {
  const Scratch scratch;
  const std::string file = scratch.write(
      "s.ptx",
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry _Z1k4Args(.param .align 8 .b8 s[24]) {\n.reg .b32 %r<3>; .reg .b64 %d<2>;\n"
      "ld.param.u32 %r1, [s]; ld.param.u64 %d1, [s+8]; ld.param.u32 %r2, [s+16];\n"
      "add.u32 %r1, %r1, %r2; st.global.u32 [%d1], %r1; ret;\n}\n");
  const Outcome outcome =
      microscale({"ptx", "run", file, "--arg", "{u32:40,out=u32[1],u32:2}", "--print", "out"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "out: 42\n");
  const Outcome sizeless = microscale({"ptx", "run", file, "--arg", "{40,u32[1],u32:2}"});
  EXPECT_EQ(sizeless.code, 2);
  EXPECT_NE(sizeless.err.find("'40' has no type, and none is known here; write s32:40"),
            std::string::npos)
      << sizeless.err;
  const Outcome too_short = microscale({"ptx", "run", file, "--arg", "{u32:40,u32[1]}"});
  EXPECT_NE(too_short.err.find("16 bytes were given; the parameter takes 24"), std::string::npos)
      << too_short.err;
}

TEST(ParameterBytes, hands_over_tensor_maps) {
  const Scratch scratch;
  // A box of 4 x 16 floats comes to shared memory, and its second row goes out.
  const std::string file = scratch.write(
      "t.ptx",
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 o) {\n"
      ".reg .b32 %r<5>; .reg .b64 %d<6>; .reg .pred %p; .shared .align 128 .b8 tile[256];\n"
      ".shared .align 8 .b64 full;\n"
      "mov.u64 %d1, map; cvta.param.u64 %d1, %d1; ld.param.u64 %d2, [o]; mov.u32 %r1, full;\n"
      "mov.u32 %r2, tile;\nmbarrier.init.shared.b64 [%r1], 1; fence.proxy.async;\n"
      "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256; mov.u32 %r3, 0;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], "
      "[%d1, {%r3, %r3}], [%r1];\n"
      "WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%r1], 0; @!%p bra WAIT;\n"
      "ld.shared.b32 %r4, [%r2+64]; st.global.b32 [%d2], %r4; ret;\n}\n");
  const Outcome outcome =
      microscale({"ptx", "run", file, "--arg", "tensormap:f32[8,32]:iota,box=4x16", "--arg",
                  "o=f32[1]", "--print", "o"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out, "o: 32\n");
  for (const auto& [word, says] :
       {std::pair{"tensormap:f32[8,32]", "needs its box"},
        std::pair{"tensormap:f32[8,32],box=4", "a box of 1 axes over an array of 2"},
        std::pair{"tensormap:f32[8,32],box=4xx", "a box is elements by elements"},
        std::pair{"tensormap:f32[8,32],box=4x8,swizzle=16", "swizzle=0, 32, 64 or 128"},
        std::pair{"tensormap:3,box=4x8", "a tensor map is of an array"}}) {
    const Outcome wrong = microscale({"ptx", "run", file, "--arg", word, "--arg", "o=f32[1]"});
    EXPECT_EQ(wrong.code, 2) << word;
    EXPECT_NE(wrong.err.find(says), std::string::npos) << wrong.err;
  }
}

}  // namespace
}  // namespace microscale::testing
