// tcgen05 but for products: what is stored in one shape is loaded in others, copies put rows where
// the ISA says, and each rule that is broken is named.
#include "emulator/ops/tcgen05.hpp"

#include <gtest/gtest.h>

#include <map>

#include "emulator/run_ptx.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {
namespace {

using tensor::TensorShape;
using testing::Ran;

/// An entry of 128 threads: `before` runs with %r60 the thread, %r61 the warp; warp 0 allocates
/// `columns`; `body` has %r62, the address, and %r63, that of the warp's own lanes; then all meet
/// and warp 0 gives the columns back.
std::string kernel(const std::string& body, const std::string& before = "", int columns = 64) {
  return ".version 9.0\n.target sm_100a\n.address_size 64\n"
         ".shared .align 1024 .b8 image[8192];\n.shared .align 8 .b64 full;\n.shared .align 4 .b32 "
         "base;\n"
         ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r60, %r61, %r62, %r63;\n"
         ".reg .b32 %d<140>;\n.reg .pred %q<8>;\n" +
         testing::registers.substr(0, testing::registers.find(".reg .b32")) +
         ".reg .b32 %r<60>; .reg .b64 %rd<40>;\n"
         "ld.param.u64 %rd0, [p];\nmov.u32 %r60, %tid.x;\nshr.u32 %r61, %r60, 5;\n"
         "setp.ne.u32 %q0, %r61, 0;\nsetp.ne.u32 %q1, %r60, 0;\n" +
         before +
         "@%q0 bra have;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base], " +
         std::to_string(columns) +
         ";\nhave:\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
         "tcgen05.fence::after_thread_sync;\nld.shared.u32 %r62, [base];\nshl.b32 %r63, %r61, 21;\n"
         "add.u32 %r63, %r62, %r63;\n" +
         body +
         "tcgen05.fence::before_thread_sync;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n@%q0 "
         "bra end;\n"
         "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r62, " +
         std::to_string(columns) + ";\nend:\nret;\n}\n";
}

Ran run(const std::string& text,
        std::vector<std::uint32_t> words = std::vector<std::uint32_t>(4096),
        Completion completion = Completion::latest) {
  LaunchOptions options;
  options.completion = completion;
  return testing::launch_words(text, std::move(words), testing::shaped(1, 128, options));
}

std::string list(int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i ? ", %d" : "%d") + std::to_string(i);
  return text + "}";
}

/// Every thread stores 1000 * thread + register in `shape`, and stores `count` registers of `other`
/// in global memory.
std::string round_trip(const std::string& shape, int stored, const std::string& other, int loaded) {
  std::string body;
  for (int i = 0; i < stored; ++i)
    body += "mad.lo.u32 %d" + std::to_string(i) + ", %r60, 1000, " + std::to_string(i) + ";\n";
  body += "tcgen05.st.sync.aligned." + shape + ".b32 [%r63], " + list(stored) +
          ";\ntcgen05.wait::st.sync.aligned;\n";
  body += "tcgen05.ld.sync.aligned." + other + ".b32 " + list(loaded) +
          ", [%r63];\ntcgen05.wait::ld.sync.aligned;\n";
  body += "mul.wide.u32 %rd1, %r60, 128;\nadd.s64 %rd1, %rd0, %rd1;\n";
  for (int i = 0; i < loaded; ++i)
    body += "st.global.u32 [%rd1+" + std::to_string(4 * i) + "], %d" + std::to_string(i) + ";\n";
  return kernel(body);
}

TEST(Tcgen05Moves, what_one_shape_stores_another_loads) {
  using enum TensorShape;
  struct Form {
    const char* name;
    TensorShape shape;
    int registers;
  };
  // Eight columns of the first 16 lanes of each warp.
  const Form forms[] = {{"16x64b.x4", lanes16x64b, 4},
                        {"16x128b.x2", lanes16x128b, 4},
                        {"16x256b.x1", lanes16x256b, 4}};
  for (const Form& from : forms)
    for (const Form& to : forms) {
      const Ran ran = run(round_trip(from.name, from.registers, to.name, to.registers));
      ASSERT_EQ(ran.findings(), "");
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> words;
      for (std::uint32_t lane = 0; lane < 32; ++lane)
        for (std::uint32_t reg = 0; reg < 4; ++reg) {
          const tensor::TensorPlace place = tensor_place(from.shape, lane, reg);
          words[{place.lane, place.column}] = 1000 * lane + reg;
        }
      for (std::uint32_t thread = 0; thread < 128; ++thread)
        for (std::uint32_t reg = 0; reg < 4; ++reg) {
          const tensor::TensorPlace place = tensor_place(to.shape, thread % 32, reg);
          EXPECT_EQ(ran.words[32 * thread + reg],
                    (words[{place.lane, place.column}] + thread / 32 * 32000))
              << from.name << " " << to.name;
        }
    }
  const Ran wide = run(round_trip("32x32b.x32", 32, "32x32b.x32", 32));
  EXPECT_EQ(wide.findings(), "");
  EXPECT_EQ(wide.words[32 * 77 + 9], 77009u);
  // 16x32bx2: 16 lanes and two runs of columns.
  const Ran halves = run(kernel(
      "mad.lo.u32 %d0, %r60, 1000, 0;\ntcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r63], 5, {%d0};\n"
      "tcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.32x32b.x8.b32 " +
      list(8) +
      ", [%r63];\ntcgen05.wait::ld.sync.aligned;\nmul.wide.u32 %rd1, %r60, 8;\nadd.s64 %rd1, %rd0, "
      "%rd1;\n"
      "and.b32 %r1, %r60, 16;\nsetp.ne.u32 %q2, %r1, 0;\n"
      "@!%q2 st.global.v2.u32 [%rd1], {%d0, %d5};\n"));
  EXPECT_EQ(halves.findings(), "");
  EXPECT_EQ(halves.words[2 * 35], 35000u);
  EXPECT_EQ(halves.words[2 * 35 + 1], 51000u);
}

/// Rows of the image: word i of it is i. Loads 8 columns of all lanes.
Ran copied(const std::string& shape, std::uint64_t leading, std::uint64_t stride,
           const std::string& fence) {
  const std::uint64_t descriptor = leading / 16 << 16 | stride / 16 << 32 | std::uint64_t{1} << 46;
  std::string before = "mov.u32 %r1, image;\n";
  for (int i = 0; i < 8; ++i)
    before += "add.u32 %r2, %r60, " + std::to_string(128 * i) +
              ";\nshl.b32 %r3, %r2, 2;\nadd.u32 %r3, %r1, %r3;\nst.shared.u32 [%r3], %r2;\n";
  before += "@!%q1 mbarrier.init.shared::cta.b64 [full], 1;\n" + fence;
  return run(kernel(
      "mov.u32 %d9, 0;\ntcgen05.st.sync.aligned.32x32b.x8.b32 [%r63], {%d9, %d9, %d9, %d9, %d9, "
      "%d9, %d9, %d9};\n"
      "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync "
      "0;\ntcgen05.fence::after_thread_sync;\n"
      "@%q1 bra waits;\ntcgen05.cp.cta_group::1." +
          shape + " [%r62], " + std::to_string(descriptor) +
          ";\ntcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%r4];\nwaits:\n"
          "again:\nmbarrier.try_wait.parity.shared::cta.b64 %q3, [full], 0;\n@!%q3 bra again;\n"
          "tcgen05.fence::after_thread_sync;\ntcgen05.ld.sync.aligned.32x32b.x8.b32 " +
          list(8) +
          ", [%r63];\ntcgen05.wait::ld.sync.aligned;\nmul.wide.u32 %rd1, %r60, 32;\nadd.s64 %rd1, "
          "%rd0, %rd1;\n"
          "st.global.v4.u32 [%rd1], {%d0, %d1, %d2, %d3};\nst.global.v4.u32 [%rd1+16], {%d4, %d5, "
          "%d6, %d7};\n",
      before + "mov.u32 %r4, full;\n"));
}

TEST(Tcgen05Copy, puts_rows_where_its_shape_says) {
  const std::string fence = "fence.proxy.async.shared::cta;\n";
  const Ran scales = copied("32x128b.warpx4", 128, 128, fence);
  ASSERT_EQ(scales.findings(), "");
  for (std::uint32_t lane = 0; lane < 128; ++lane)
    for (std::uint32_t column = 0; column < 8; ++column)
      ASSERT_EQ(scales.words[8 * lane + column], column < 4 ? lane % 32 * 4 + column : 0);
  // Two chunks of 16 bytes a row, cores of eight rows: 128 bytes on along K, 256 along rows.
  const Ran wide = copied("128x256b", 128, 256, fence);
  ASSERT_EQ(wide.findings(), "");
  for (std::uint32_t lane = 0; lane < 128; ++lane)
    for (std::uint32_t column = 0; column < 8; ++column)
      ASSERT_EQ(wide.words[8 * lane + column],
                lane / 8 * 64 + column / 4 * 32 + lane % 8 * 4 + column % 4);
  const Ran pairs = copied("64x128b.warpx2::02_13", 128, 128, fence);
  const Ran halves = copied("64x128b.warpx2::01_23", 128, 128, fence);
  for (std::uint32_t lane = 0; lane < 128; ++lane) {
    ASSERT_EQ(pairs.words[8 * lane + 1], lane % 64 * 4 + 1);
    ASSERT_EQ(halves.words[8 * lane + 1], (lane / 64 * 32 + lane % 32) * 4 + 1);
  }
}

TEST(Tcgen05Copy, needs_the_proxy_fence_behind_stores) {
  const Ran ran = copied("32x128b.warpx4", 128, 128, "");
  EXPECT_EQ(ran.count(FindingKind::missing_fence), 1) << ran.findings();
  EXPECT_NE(ran.findings().find("no fence.proxy.async"), std::string::npos);
}

TEST(Tcgen05, allocation_waits_for_columns_and_permits) {
  // Warp 1 wants all columns and goes on when warp 0 gives its back; then warp 0 takes some again.
  LaunchOptions reverse;
  reverse.schedule = Schedule::reverse;
  const std::string both = kernel(
      "@%q0 bra kept;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r62, 512;\nkept:\n"
      "setp.ne.u32 %q4, %r61, 1;\n@%q4 bra other;\n"
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [full], 512;\nbar.warp.sync "
      "-1;\nld.shared.u32 %r5, "
      "[full];\n"
      "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 512;\nother:\nbar.sync 0;\n@%q0 bra "
      "taken;\n"
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base], 512;\nbar.warp.sync "
      "-1;\nld.shared.u32 %r62, "
      "[base];\ntaken:\n",
      "", 512);
  const Ran ran = testing::launch_words(both, {0}, testing::shaped(1, 128, reverse));
  EXPECT_EQ(ran.findings(), "");
  const Ran late =
      run(kernel("@%q0 bra other;\ntcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
                 "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [full], 32;\nother:\n"));
  EXPECT_NE(late.findings().find("behind a tcgen05.relinquish_alloc_permit"), std::string::npos)
      << late.findings();
}

TEST(Tcgen05, undefined_words_are_told_of_where_they_decide) {
  const std::string load =
      "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d0}, [%r63];\ntcgen05.wait::ld.sync.aligned;\n";
  EXPECT_EQ(run(kernel(load + "add.u32 %d1, %d0, 1;\n")).findings(), "");
  const Ran ran = run(kernel(load + "@!%q1 st.global.u32 [%rd0], %d0;\n"));
  EXPECT_NE(ran.findings().find("tcgen05.ld loads lane"), std::string::npos) << ran.findings();
}

TEST(Tcgen05, forms_that_ptxas_refuses_are_refused) {
  for (const char* line :
       {"tcgen05.ld.sync.aligned.16x256b.x64.b32 {%d0}, [%r63];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%d0}, [%r63];",
        "tcgen05.cp.cta_group::1.32x128b [%r62], %rd1;",
        "tcgen05.cp.cta_group::1.64x128b [%r62], %rd1;",
        "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block16 [%r62], %rd1, %rd1, %r1, [%r1], "
        "[%r1], 1;",
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4 [%r62], %rd1, %rd1, %r1, 1;",
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [%r62], %rd1, %rd1, %r1, [%r1], "
        "[%r1], 1;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cta.b64 [%r1];",
        "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%d0, _}, [%r63];",
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16.scale_vec::4X [%r62], %rd1, "
        "%rd1, %r1, [%r1], [%r1], 1;",
        "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes.multicast::"
        "cluster [%r1], [%rd1, {%r1, %r1}], [%r1], 3;",
        "tcgen05.wait::ld;", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r63], %d0;"})
    EXPECT_THROW(run(kernel(std::string(line) + "\n")), Error) << line;
}

}  // namespace
}  // namespace microscale::emulator
