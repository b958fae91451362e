#include "emulator/ptx/listing.hpp"

#include <gtest/gtest.h>

#include "emulator/ptx/parse_text.hpp"

namespace microscale::emulator::ptx {
namespace {

const std::string registers =
    ".reg .pred %p<9>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<4>;\n";

std::vector<Note> notes(const std::string& body, const std::string& before = "") {
  const Kernel kernel = parse_kernel(registers + body, before);
  return explain(kernel.module, kernel.function);
}

std::vector<Note> accesses(const std::string& body, const std::string& before = "") {
  std::vector<Note> found;
  for (const Note& each : notes(body, before))
    if (!each.verdict.empty()) found.push_back(each);
  return found;
}

std::string verdict(const std::string& body) {
  return accesses("mov.u32 %r1, %tid.x;" + body).at(0).verdict;
}

// Two widely read transposes, naive and by a tile of 32 x 33 floats, with their parameters.
TEST(PtxListing, naive_transpose_reads_coalesced_and_writes_by_the_height) {
  const Module module = take(Module::parse(head + R"(
.visible .entry naive(.param .u64 in, .param .u64 out, .param .u32 width, .param .u32 height) {
.reg .pred %p<4>; .reg .b32 %r<13>; .reg .b64 %rd<9>; .reg .f32 %f<2>;
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r3, [width]; ld.param.u32 %r4, [height];
mov.u32 %r5, %ntid.x; mov.u32 %r6, %ctaid.x; mov.u32 %r7, %tid.x; mad.lo.s32 %r1, %r5, %r6, %r7;
mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ntid.y; mov.u32 %r10, %tid.y; mad.lo.s32 %r2, %r9, %r8, %r10;
setp.ge.s32 %p1, %r1, %r3; setp.ge.s32 %p2, %r2, %r4; or.pred %p3, %p1, %p2; @%p3 bra $L__BB0_2;
cvta.to.global.u64 %rd3, %rd1; mad.lo.s32 %r11, %r2, %r3, %r1; mad.lo.s32 %r12, %r1, %r4, %r2;
mul.wide.s32 %rd4, %r11, 4; add.s64 %rd5, %rd3, %rd4;
ld.global.f32 %f1, [%rd5];
cvta.to.global.u64 %rd6, %rd2; mul.wide.s32 %rd7, %r12, 4; add.s64 %rd8, %rd6, %rd7;
st.global.f32 [%rd8], %f1;
$L__BB0_2: ret; })"));
  const auto all = explain(module, *take(module.body(0)));
  std::vector<Note> found;
  for (const Note& each : all)
    if (!each.verdict.empty()) found.push_back(each);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].role, Role::load);
  EXPECT_EQ(found[0].stride, "4");
  EXPECT_EQ(found[0].verdict, "coalesced: 4 sectors of 32 bytes, the least");
  EXPECT_EQ(found[0].address,
            "4*%ctaid.x*%ntid.x + 4*%ctaid.y*%ntid.y*[width] + 4*%tid.x + 4*%tid.y*[width] + [in]");
  EXPECT_EQ(found[1].role, Role::store);
  EXPECT_EQ(found[1].stride, "4*[height]");
  EXPECT_EQ(found[1].verdict, "not coalesced, unless 4*[height] is 4");
  EXPECT_EQ(all[0].role, Role::set_up);
  EXPECT_EQ(all[7].role, Role::index);
  EXPECT_EQ(all[12].role, Role::bounds);
  EXPECT_EQ(all[15].role, Role::bounds);
  EXPECT_EQ(all.back().role, Role::control);
}

TEST(PtxListing, tiled_transpose_has_no_bank_conflict) {
  const auto found = accesses(R"(
mov.u32 %r2, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r14, tile; mad.lo.s32 %r15, %r5, 132, %r14;
shl.b32 %r16, %r2, 2; add.s32 %r17, %r15, %r16; st.shared.f32 [%r17], %f1; bar.sync 0; mov.u32 %r18, tile;
mad.lo.s32 %r19, %r2, 132, %r18; shl.b32 %r20, %r5, 2; add.s32 %r21, %r19, %r20;
ld.shared.f32 %f2, [%r21];)",
                              ".shared .align 4 .b8 tile[4224];\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].address, "4*%tid.x + 132*%tid.y + &tile");
  EXPECT_EQ(found[0].verdict, "no bank conflict");
  EXPECT_EQ(found[1].stride, "132");
  EXPECT_EQ(found[1].verdict, "no bank conflict");
}

TEST(PtxListing, verdicts_count_sectors_and_banks) {
  const std::string to_shared = "mul.lo.s32 %r2, %r1, ";
  EXPECT_EQ(verdict(to_shared + "128; ld.shared.f32 %f1, [%r2];"), "32-way bank conflict");
  EXPECT_EQ(verdict(to_shared + "8; ld.shared.f32 %f1, [%r2];"), "2-way bank conflict");
  EXPECT_EQ(verdict(to_shared + "16; ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%r2];"),
            "no bank conflict");
  const std::string to_global = "mul.wide.s32 %rd1, %r1, ";
  EXPECT_EQ(verdict(to_global + "16; ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd1];"),
            "coalesced: 16 sectors of 32 bytes, the least");
  EXPECT_EQ(verdict(to_global + "8; ld.global.f32 %f1, [%rd1];"),
            "not coalesced: 8 sectors of 32 bytes, 4 would do");
  EXPECT_EQ(verdict(to_global + "-4; ld.global.f32 %f1, [%rd1];"),
            "coalesced: 4 sectors of 32 bytes, the least");
  EXPECT_EQ(verdict("mov.u64 %rd1, 64; ld.global.f32 %f1, [%rd1];"), "one address for all lanes");
}

TEST(PtxListing, a_loop_adds_what_all_lanes_share) {
  const auto found =
      accesses(R"(mov.u32 %r1, %tid.x; ld.param.u32 %r9, [q]; mul.wide.s32 %rd1, %r1, 4;
L: ld.global.f32 %f1, [%rd1]; mul.wide.s32 %rd2, %r9, 4; add.s64 %rd1, %rd1, %rd2; @%p1 bra L;)");
  EXPECT_EQ(found.at(0).stride, "4");
  EXPECT_EQ(found[0].address, "4*%tid.x + ~%rd1");
}

TEST(PtxListing, does_not_guess) {
  const std::string unknown = "cannot tell: not affine in the lane";
  EXPECT_EQ(verdict("shr.u32 %r2, %r1, 3; mul.wide.u32 %rd1, %r2, 4; ld.global.f32 %f1, [%rd1];"),
            unknown);
  EXPECT_EQ(
      verdict("mul.wide.u32 %rd1, %r1, 4; ld.global.b64 %rd2, [%rd1]; ld.global.f32 %f1, [%rd2];")
          .substr(0, 9),
      "coalesced");
  EXPECT_EQ(accesses("mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 8; ld.global.b64 %rd2, [%rd1];"
                     "ld.global.f32 %f1, [%rd2];")
                .at(1)
                .verdict,
            unknown);
  EXPECT_EQ(verdict("setp.lt.u32 %p1, %r1, 7; mov.b64 %rd1, 0; @%p1 mov.b64 %rd1, 4; ld.global.f32 "
                    "%f1, [%rd1];"),
            unknown);
  EXPECT_EQ(verdict("selp.b64 %rd1, 0, 4, %p1; ld.global.f32 %f1, [%rd1];"),
            "one address for all lanes");
  EXPECT_EQ(verdict("mul.lo.s32 %r2, %r1, %r1; ld.shared.f32 %f1, [%r2];"), unknown);
}

TEST(PtxListing, lanes_that_a_branch_parted_do_not_share_what_they_wrote) {
  const std::string unknown = "cannot tell: not affine in the lane",
                    one = "one address for all lanes";
  const std::string by_lane = "setp.lt.u32 %p1, %r1, 7; ",
                    by_block = "mov.u32 %r2, %ctaid.x; setp.lt.u32 %p1, %r2, 7; ";
  const std::string sides =
      "@%p1 bra A; mov.b64 %rd1, 0; bra B; A: mov.b64 %rd1, 4; B: ld.global.f32 %f1, [%rd1];";
  EXPECT_EQ(verdict(by_lane + sides), unknown);
  EXPECT_EQ(verdict(by_block + sides), one);
  const std::string skip =
      "mov.b64 %rd1, 0; @%p1 bra A; add.s64 %rd1, %rd1, 4; A: ld.global.f32 %f1, [%rd1];";
  EXPECT_EQ(verdict(by_lane + skip), unknown);
  EXPECT_EQ(verdict(by_block + skip), one);
  // Inside a loop that lanes leave at different times they agree; behind it they do not.
  const std::string loop =
      "mov.b64 %rd1, 0; L: ld.global.f32 %f1, [%rd1]; add.s64 %rd1, %rd1, 4;"
      "setp.lt.u32 %p1, %r1, 7; @%p1 bra L; ";
  EXPECT_EQ(verdict(loop), one);
  EXPECT_EQ(accesses("mov.u32 %r1, %tid.x;" + loop + "ld.global.f32 %f2, [%rd1];").at(1).verdict,
            unknown);
}

TEST(PtxListing, results_of_calls_may_differ) {
  const auto found =
      accesses("{ .param .b64 r; call (r), f; ld.param.b64 %rd1, [r]; } ld.global.f32 %f1, [%rd1];",
               ".func (.param .b64 r) f();\n");
  EXPECT_EQ(found.at(0).stride, "?");
}

TEST(PtxListing, roles_have_names) {
  const auto all = notes("bar.sync 0; add.f32 %f0, %f1, %f2; atom.global.add.u32 %r1, [%rd0], 1;");
  EXPECT_STREQ(name_of(all[0].role), "barrier");
  EXPECT_STREQ(name_of(all[1].role), "arithmetic");
  EXPECT_STREQ(name_of(all[2].role), "atomic");
  EXPECT_EQ(all[1].verdict, "");
}

}  // namespace
}  // namespace microscale::emulator::ptx
