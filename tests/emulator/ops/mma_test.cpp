// mma in the machine: every spelling as PTX, and what is reported or refused.
#include <gtest/gtest.h>

#include <bit>

#include "emulator/ops/matrix.hpp"
#include "microscale/emulator.hpp"
#include "support/mma_kernels.hpp"
#include "support/mma_replay.hpp"

namespace microscale::testing {
namespace {

using Words = std::vector<std::uint32_t>;

struct Ran {
  emulator::LaunchReport report;
  Words out;

  const emulator::Finding* finding(emulator::FindingKind kind) const {
    for (const emulator::Finding& each : report.findings)
      if (each.kind == kind) return &each;
    return nullptr;
  }
  std::string sentences() const {
    std::string text;
    for (const emulator::Finding& each : report.findings) text += to_sentence(each) + "\n";
    return text;
  }
};

std::string module_head(const std::string& target) {
  return ".version 9.0\n.target " + target + "\n.address_size 64\n";
}

Ran run(const std::string& text, const std::string& kernel, const Words& in, std::size_t results,
        std::uint32_t threads = 32) {
  emulator::Memory memory;
  emulator::Module module(memory, text);
  const auto bytes = static_cast<std::int64_t>(4 * in.size());
  const std::uint64_t from = memory.allocate(bytes),
                      to = memory.allocate(static_cast<std::int64_t>(4 * results));
  memory.write(from, in.data(), bytes);
  memory.fill(to, 0xA5, static_cast<std::int64_t>(4 * results));
  emulator::LaunchRequest request;
  request.kernel = kernel;
  request.block = {threads};
  request.arguments = emulator::arguments(from, to);
  Ran ran;
  ran.report = launch(memory, module, request);
  ran.out.resize(results);
  memory.read(ran.out.data(), to, static_cast<std::int64_t>(4 * results));
  return ran;
}

void expect_equal(const tensor::MmaShape& shape, const std::string& target,
                  tensor::Generation generation) {
  const std::string text = module_head(target) + mma_kernel(shape);
  for (int spread = 0; spread < spreads; ++spread) {
    const Words in = mma_case(shape, static_cast<Spread>(spread), 1);
    const Words wanted = model_mma(shape, generation, in);
    const Ran ran = run(text, kernel_name(shape), in, wanted.size());
    EXPECT_EQ(ran.out, wanted) << spelling(shape) << spread_names[spread] << ran.sentences();
    if (spread != static_cast<int>(Spread::specials)) {
      EXPECT_TRUE(ran.report.findings.empty()) << ran.sentences();
    }
  }
}

TEST(MmaHandler, every_hopper_spelling_gives_what_the_hardware_gave) {
  for (const tensor::MmaShape& shape : hopper_mma_shapes())
    expect_equal(shape, "sm_90a", tensor::Generation::hopper);
}

TEST(MmaHandler, block_scaled_kinds_run_on_sm_120a) {
  for (const tensor::MmaShape& shape : blackwell_mma_shapes())
    expect_equal(shape, "sm_120a", tensor::Generation::blackwell);
}

/// An mxf8f6f4 of words that all lanes share; `before` may set %p, `guard` and the selectors use
/// it.
std::string uniform_kernel(const std::string& guard, const std::string& before,
                           const std::string& selectors_a,
                           const std::string& registers_a = "%r0, %r0, %r0, %r0") {
  return module_head("sm_120a") +
         ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b32 %r<12>; .reg .b16 "
         "%rs<4>; .reg .b64 %rd<6>; "
         ".reg .pred %p;\nld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];\nmov.u32 %r9, "
         "%tid.x;\n"
         "ld.global.u32 %r0, [%rd1]; ld.global.u32 %r1, [%rd1+4]; mov.u32 %r2, 0; mov.u32 %r4, 0; "
         "mov.u32 %r5, 0; "
         "mov.u32 %r6, 0; mov.u32 %r7, 0;\n" +
         before + guard +
         "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m1.e2m1."
         "f32.ue8m0 "
         "{%r4, %r5, %r6, %r7}, {" +
         registers_a + "}, {%r0, %r0}, {%r2, %r2, %r2, %r2}, %r1, " + selectors_a +
         ", %r1, {0, 0};\nmul.wide.u32 %rd3, %r9, 4; add.s64 %rd3, %rd3, %rd2; st.global.u32 "
         "[%rd3], %r4;\nret;\n}\n";
}

TEST(MmaHandler, padding_is_reported_and_ignored) {
  const Ran ran = run(uniform_kernel("", "", "{0, 0}"), "k", {0x22222222, 0x7F7F7F7F}, 32);
  EXPECT_EQ(ran.out, Words(32, 0u));
  const emulator::Finding* finding = ran.finding(emulator::FindingKind::padding);
  ASSERT_NE(finding, nullptr) << ran.sentences();
  EXPECT_NE(finding->message.find("lanes 0-31"), std::string::npos) << finding->message;
  const Ran right = run(uniform_kernel("", "", "{0, 0}"), "k", {0x08080808, 0x7F7F7F7F}, 32);
  EXPECT_EQ(right.sentences(), "");
  EXPECT_EQ(std::bit_cast<float>(right.out[7]), 32.0f);
}

TEST(MmaHandler, selectors_come_from_registers_and_are_checked) {
  const std::string text =
      uniform_kernel("", "mov.u16 %rs0, 3; mov.u16 %rs1, 1;\n", "{%rs0, %rs1}");
  const Ran ran = run(text, "k", {0x08080808, 0x807F7F7F}, 32);
  EXPECT_EQ(ran.sentences(), "");
  EXPECT_EQ(std::bit_cast<float>(ran.out[0]), 64.0f);
  const Ran wrong = run(uniform_kernel("", "mov.u16 %rs0, 0; mov.u16 %rs1, 2;\n", "{%rs0, %rs1}"),
                        "k", {0x08080808, 0x7F7F7F7F}, 32);
  const emulator::Finding* finding = wrong.finding(emulator::FindingKind::bad_selector);
  ASSERT_NE(finding, nullptr) << wrong.sentences();
  EXPECT_NE(finding->message.find("thread-id 2"), std::string::npos) << finding->message;
  const Ran differing =
      run(uniform_kernel("", "cvt.u16.u32 %rs0, %r9; mov.u16 %rs1, 0;\n", "{%rs0, %rs1}"), "k",
          {0x08080808, 0x7F7F7F7F}, 32);
  EXPECT_NE(differing.finding(emulator::FindingKind::bad_selector), nullptr);
}

// B is the identity of 4 by 4 (lane 4 c + k has k of column c), so that D is A's columns and C.
TEST(MmaHandler, doubles_multiply_in_registers_of_64_bits) {
  const std::string text =
      module_head("sm_80") +
      ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .pred %p<2>; .reg .b32 %r<4>; "
      ".reg .b64 %rd<6>; .reg .f64 %e<8>;\n"
      "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd3, "
      "%r0, 8; add.s64 %rd1, %rd1, %rd3; ld.global.f64 %e0, [%rd1];\n"
      "shr.u32 %r1, %r0, 2; and.b32 %r2, %r0, 3; setp.eq.u32 %p1, %r1, %r2; selp.f64 %e1, "
      "0d3FF0000000000000, 0d0000000000000000, %p1;\n"
      "mov.f64 %e2, 0d3FE0000000000000; mov.f64 %e3, %e2;\n"
      "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%e2, %e3}, {%e0}, {%e1}, {%e2, %e3};\n"
      "add.s64 %rd2, %rd2, %rd3; add.s64 %rd2, %rd2, %rd3; st.global.v2.f64 [%rd2], {%e2, %e3}; "
      "ret;\n}\n";
  Words in(64);
  for (std::size_t i = 0; i < 32; ++i) {
    const auto value = std::bit_cast<std::uint64_t>(1.25 * static_cast<double>(i));
    in[2 * i] = static_cast<std::uint32_t>(value),
           in[2 * i + 1] = static_cast<std::uint32_t>(value >> 32);
  }
  const Ran ran = run(text, "k", in, 128);
  EXPECT_EQ(ran.sentences(), "");
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t at = 4 * lane + 2 * i, row = lane / 4, column = 2 * (lane % 4) + i;
      const double got = std::bit_cast<double>(ran.out[at] | std::uint64_t{ran.out[at + 1]} << 32);
      const double a = column < 4 ? 1.25 * static_cast<double>(4 * row + column) : 0;
      EXPECT_EQ(got, a + 0.5) << lane;
    }
}

TEST(MmaHandler, lanes_that_stay_away_are_named) {
  const Ran ran = run(uniform_kernel("@%p ", "setp.lt.u32 %p, %r9, 16;\n", "{0, 0}"), "k",
                      {0x08080808, 0x7F7F7F7F}, 32);
  const emulator::Finding* finding = ran.finding(emulator::FindingKind::divergent_aligned);
  ASSERT_NE(finding, nullptr) << ran.sentences();
  EXPECT_NE(finding->message.find("lanes 16-31"), std::string::npos) << finding->message;
  const Ran few = run(uniform_kernel("", "", "{0, 0}"), "k", {0x08080808, 0x7F7F7F7F}, 32, 24);
  finding = few.finding(emulator::FindingKind::divergent_aligned);
  ASSERT_NE(finding, nullptr) << few.sentences();
  EXPECT_NE(finding->message.find("lanes 24-31"), std::string::npos) << finding->message;
}

}  // namespace
}  // namespace microscale::testing
