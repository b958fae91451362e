// What is found at wgmma: registers and shared memory that it still has, warps and lanes that stay
// away, fences that are missing, descriptors that cannot be.
#include "emulator/ops/wgmma_text.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;
using enum FindingKind;

constexpr std::uint32_t sixteen = 0x41800000;

TEST(Wgmma, whole_sequence_has_no_findings_whatever_the_order) {
  for (const std::string& multiply : {WgmmaText{}.multiply, multiply_fragments})
    for (const Schedule schedule : {Schedule::round_robin, Schedule::reverse, Schedule::random})
      for (const Completion completion :
           {Completion::latest, Completion::eager, Completion::random}) {
        WgmmaText kernel;
        kernel.multiply = multiply;
        const Ran ran = kernel.run({.schedule = schedule, .completion = completion, .seed = 3});
        EXPECT_EQ(ran.findings(), "");
        for (std::size_t i = 0; i < 128; ++i) ASSERT_EQ(ran.words[i], sixteen) << i;
      }
}

TEST(Wgmma, needs_a_proxy_fence_and_a_barrier_after_the_stores) {
  WgmmaText kernel;
  kernel.proxy = "";
  EXPECT_TRUE(says(kernel.run(), missing_fence, "no fence.proxy.async stands between"))
      << kernel.run().findings();
  kernel = {};
  kernel.barrier = "";
  EXPECT_EQ(kernel.run().count(race), 1) << kernel.run().findings();
  kernel = {};
  kernel.proxy =
      "setp.eq.u32 %p3, %r51, 0; @%p3 fence.proxy.async.shared::cta;\n";  // one warp only
  EXPECT_EQ(kernel.run().count(missing_fence), 1);
  kernel = {};
  std::swap(kernel.proxy, kernel.barrier);  // by those who read
  EXPECT_EQ(kernel.run().findings(), "");
}

TEST(Wgmma, bytes_nobody_wrote_are_found) {
  WgmmaText kernel;
  kernel.fill.resize(kernel.fill.find("setp.lt"));  // no B
  EXPECT_TRUE(says(kernel.run(), uninitialised_memory, "was never written"));
}

TEST(Wgmma, fence_stands_between_registers_and_the_instruction) {
  WgmmaText kernel;
  kernel.fence = "";
  EXPECT_TRUE(says(kernel.run(), missing_fence, "no wgmma.fence stands before it"));
  kernel = {};
  kernel.fence += "mov.f32 %f2, 0f00000000;\n";
  EXPECT_TRUE(says(kernel.run(), missing_fence, "takes register %f2"));
  kernel = {};
  kernel.fence += "add.f32 %f9, %f1, %f1;\n";  // only read: D will change it all the same
  EXPECT_TRUE(says(kernel.run(), missing_fence, "takes register %f1"));
  kernel = {};
  kernel.multiply = multiply_fragments;
  kernel.fence += "mov.b32 %r6, %r5;\n";
  const Ran ran = kernel.run();
  EXPECT_TRUE(says(ran, missing_fence, "takes register %r6")) << ran.findings();
  EXPECT_EQ(ran.report.findings.size(), 1u);
  kernel.fence = "wgmma.fence.sync.aligned; add.u32 %r9, %r6, %r5;\n";  // both only read
  EXPECT_EQ(kernel.run().findings(), "");
}

TEST(Wgmma, accumulators_follow_each_other_only_in_one_shape) {
  WgmmaText kernel;
  kernel.commit = kernel.multiply + kernel.commit + kernel.multiply + kernel.commit;
  EXPECT_EQ(kernel.run().findings(), "");
  EXPECT_EQ(kernel.run().words[5], 0x42400000u);  // 48
  kernel = {};
  const std::string half =
      "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%f0, %f1}, %rd1, %rd2, %p1, 1, 1, 0, "
      "0;\n";
  kernel.commit = half + kernel.commit;
  EXPECT_TRUE(says(kernel.run(), missing_fence, "another shape"));
  kernel.commit = kernel.fence + kernel.commit;
  EXPECT_EQ(kernel.run().findings(), "");
}

TEST(Wgmma, registers_are_not_touched_before_the_wait) {
  const auto found = [](const std::string& multiply, const std::string& between,
                        const std::string& words) {
    WgmmaText kernel;
    kernel.multiply = multiply, kernel.between = between;
    const Ran ran = kernel.run();
    EXPECT_TRUE(says(ran, missing_wait, words)) << between << ran.findings();
    for (const Completion completion : {Completion::eager, Completion::random})
      EXPECT_TRUE(says(kernel.run({.completion = completion}), missing_wait, words)) << between;
    // After the wait, the same is right.
    std::swap(kernel.between, kernel.wait);
    kernel.after = "";
    EXPECT_EQ(kernel.run().findings(), "") << between;
  };
  const std::string shared = WgmmaText{}.multiply;
  found(shared, "add.f32 %f9, %f1, %f1;\n", "reads register %f1, the accumulator of");
  found(shared, "mov.f32 %f1, 0f00000000;\n", "writes register %f1, the accumulator of");
  found(multiply_fragments, "add.u32 %r9, %r5, %r5;\n", "reads register %r5, part of A of");
  found(multiply_fragments, "mov.u32 %r5, 0;\n", "writes register %r5, part of A of");
}

TEST(Wgmma, fragments_and_accumulators_of_others_are_waited_for) {
  WgmmaText kernel;
  kernel.before =
      "mov.f32 %f4, 0f00000000; mov.f32 %f5, %f4; mov.f32 %f6, %f4; mov.f32 %f7, %f4;\n";
  const std::string second =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, {%f0, %f1, %f2, "
      "%f3}, %rd2, %p1, 1, 1, 0; wgmma.commit_group.sync.aligned;\n";
  kernel.between = second;
  EXPECT_TRUE(says(kernel.run(), missing_wait, "takes A from register %f0"));
  kernel.between = kernel.fence + second;  // which orders, and does not wait
  EXPECT_TRUE(says(kernel.run(), missing_wait, "takes A from register %f0"));
  kernel.between = kernel.wait + kernel.fence + second;
  EXPECT_EQ(kernel.run().findings(), "");
  kernel = {};
  kernel.multiply = multiply_fragments;
  kernel.between =
      "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
      "{%r4, %r5, %r6, %r7}, %rd1, %rd2, 0, 1, 1, 0, 0;\n" +
      kernel.commit;
  EXPECT_TRUE(says(kernel.run(), missing_wait, "accumulates in register %r4, part of A of"));
}

TEST(Wgmma, results_wait_for_their_own_group) {
  WgmmaText kernel;
  kernel.wait = "wgmma.wait_group.sync.aligned 1;\n";
  Ran ran = kernel.run();
  EXPECT_TRUE(says(ran, missing_wait, "reads register %f3")) << ran.findings();
  EXPECT_EQ(ran.words[0], 0xcbcbcbcbu);  // as late as may be
  EXPECT_EQ(ran.words[127], 0xcbcbcbcbu);
  EXPECT_EQ(kernel.run({.completion = Completion::eager}).words[64], sixteen);
  kernel.wait = "wgmma.wait_group.sync.aligned 4294967296;\n";
  EXPECT_TRUE(says(kernel.run(), missing_wait, "reads register %f3"));
  kernel = {};
  kernel.commit = "";  // in no group
  EXPECT_TRUE(says(kernel.run(), missing_wait, "reads register %f3"));
  kernel = {};
  kernel.wait = kernel.after = "";
  EXPECT_TRUE(says(kernel.run(), missing_wait, "ends before the results"));
  kernel = {};  // an older group is done
  kernel.before =
      "mov.f32 %f4, 0f00000000; mov.f32 %f5, %f4; mov.f32 %f6, %f4; mov.f32 %f7, %f4;\n";
  kernel.between =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, %rd1, %rd2, %p1, 1, "
      "1, 0, 0; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;\n"
      "st.global.f32 [%rd32+1024], %f2;\n";
  ran = kernel.run();
  EXPECT_EQ(ran.findings(), "");
  EXPECT_EQ(ran.words[256], sixteen);
}

TEST(Wgmma, shared_memory_is_kept_until_the_wait) {
  WgmmaText kernel;
  const std::string overwrite = "st.shared.b32 [%r12], %r10;\n";
  kernel.between = overwrite;
  for (const Completion completion : {Completion::latest, Completion::eager, Completion::random})
    EXPECT_TRUE(says(kernel.run({.completion = completion}), missing_wait,
                     "which the wgmma of the warpgroup of warp 0"))
        << kernel.run().findings();
  kernel.between = "", kernel.after = overwrite;
  EXPECT_EQ(kernel.run().findings(), "");
  // Another warp must learn that the warpgroup has waited.
  kernel = {};
  kernel.before = "setp.ge.u32 %p4, %r50, 128; @%p4 bra OTHER;\n";
  kernel.barrier = "bar.sync 1, 128;\n";
  kernel.after =
      "bar.arrive 0, 160; bra END;\nOTHER: bar.sync 0, 160;\n"
      "st.shared.b32 [%r1+64], %r4;\nEND: ";
  EXPECT_EQ(kernel.run({}, 160).findings(), "");
  kernel.after = "bar.arrive 0, 160;\n" + kernel.wait +
                 "bra END;\nOTHER: bar.sync 0, 160;\nst.shared.b32 [%r1+64], %r4;\nEND: ";
  kernel.wait = "";
  EXPECT_TRUE(says(kernel.run({}, 160), missing_wait, "warpgroup of warp 0"));
}

TEST(Wgmma, warps_that_stay_away_are_named) {
  WgmmaText kernel;
  EXPECT_TRUE(says(kernel.run({}, 64), divergent_aligned, "warps 2, 3 are not in the block"))
      << kernel.run({}, 64).findings();
  const std::string skip = "setp.eq.u32 %p5, %r51, 2; @%p5 bra BEHIND;\n";
  kernel.fence += skip;
  kernel.wait += "BEHIND:\n";
  EXPECT_TRUE(says(kernel.run(), divergent_aligned, "warp 2 ended without it"))
      << kernel.run().findings();
  kernel = {};
  kernel.fence += "setp.eq.u32 %p5, %r51, 2; @%p5 ret;\n";
  for (const Schedule schedule : {Schedule::round_robin, Schedule::reverse})
    EXPECT_TRUE(
        says(kernel.run({.schedule = schedule}), divergent_aligned, "warp 2 ended without"));
  kernel = {};
  kernel.fence += "setp.eq.u32 %p5, %r51, 1; @%p5 bar.sync 3, 64;\n";  // alone, for ever
  EXPECT_TRUE(says(kernel.run(), divergent_aligned, "warp 1 never came"))
      << kernel.run().findings();
  kernel = {};
  kernel.fence += "setp.eq.u32 %p5, %r51, 3; @%p5 bra OTHER;\n";
  kernel.commit += "bra JOIN;\nOTHER:\n" + kernel.multiply + kernel.commit + "JOIN:\n";
  EXPECT_TRUE(says(kernel.run(), divergent_aligned, "meets the wgmma.mma_async at PTX line"))
      << kernel.run().findings();
}

TEST(Wgmma, lanes_that_stay_away_are_named) {
  WgmmaText kernel;
  kernel.fence += "and.b32 %r8, %r50, 16; setp.eq.u32 %p5, %r8, 0;\n@%p5 ";
  EXPECT_TRUE(says(kernel.run(), divergent_aligned, "lanes 16-31"));
  EXPECT_TRUE(says(WgmmaText{}.run({}, 120), divergent_aligned, "lanes 24-31"));
}

TEST(Wgmma, accumulators_nobody_wrote_are_read_only_if_they_count) {
  WgmmaText kernel;
  kernel.accumulators = "";
  EXPECT_TRUE(says(kernel.run(), uninitialised_register, "%f0"));
  kernel.accumulators = "setp.ne.u32 %p1, %r1, %r1;\n";
  EXPECT_EQ(kernel.run().findings(), "");
  EXPECT_EQ(kernel.run().words[1], sixteen);
  kernel.multiply = "{ .reg .pred p; setp.ne.b32 p, %r50, 9; " + kernel.multiply;
  kernel.multiply.replace(kernel.multiply.find("%p1"), 3, "p");
  kernel.multiply += "}\n";
  EXPECT_TRUE(says(kernel.run(), misuse, "false in lane 9"));
}

TEST(Wgmma, descriptors_are_checked) {
  const auto with = [](const std::string& change) {
    WgmmaText kernel;
    kernel.before = change + "\n";
    return kernel.run();
  };
  const std::string b = "and.b64 %rd2, %rd2, 0xffff;\n";  // address only: offsets are 0
  EXPECT_EQ(with("or.b64 %rd2, %rd2, 0x0;").findings(), "");
  EXPECT_TRUE(says(with("or.b64 %rd2, %rd2, 0x3fff;"), out_of_bounds, "past the end of the 4096"));
  EXPECT_TRUE(says(with("or.b64 %rd2, %rd2, 0x4000;"), misuse, "reserved bits set: 0x4000"));
  EXPECT_EQ(with("or.b64 %rd2, %rd2, 0x3fff3fff0000;").count(out_of_bounds), 1);
  // A 128-byte swizzle that begins inside its pattern, unless the base offset says so.
  const std::string swizzled = "or.b64 %rd1, %rd1, 0x4000000000000008;";
  EXPECT_TRUE(says(with(swizzled), misaligned, "begins at 0x80, 128 bytes into the pattern"))
      << with(swizzled).findings();
  EXPECT_EQ(with("or.b64 %rd1, %rd1, 0x4002000000000008;").count(misaligned), 0);
  EXPECT_TRUE(says(with("or.b64 %rd1, %rd1, 0x4000000000000007;"), misaligned, "do not fit"));
  EXPECT_TRUE(says(with("cvt.u64.u32 %rd9, %r50; shr.u64 %rd9, %rd9, 3; add.s64 %rd1, %rd1, %rd9;"),
                   misuse, "in lane 8"));
  EXPECT_TRUE(says(with("cvt.u64.u32 %rd9, %r51; add.s64 %rd1, %rd1, %rd9;"), misuse,
                   "has another descriptor"));
}

}  // namespace
}  // namespace microscale::emulator
