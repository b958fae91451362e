#include "emulator/ptx/listing.hpp"

#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
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

// A block of 16 x 16 threads: two of its rows are a warp.
TEST(PtxListing, knows_the_lanes_of_a_block_whose_rows_are_shorter_than_a_warp) {
  const Kernel kernel = parse_kernel(
      registers +
          "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, tile; shl.b32 %r4, %r1, 2;\n"
          "mad.lo.s32 %r5, %r2, 64, %r3; add.s32 %r6, %r5, %r4; st.shared.f32 [%r6], %f1;\n"
          "shl.b32 %r7, %r2, 2; mad.lo.s32 %r8, %r1, 64, %r3; add.s32 %r9, %r8, %r7;\n"
          "ld.shared.f32 %f2, [%r9];",
      ".shared .align 4 .b8 tile[1024];\n");
  const auto verdicts = [&](const Extent& block) {
    std::vector<std::string> found;
    for (const Note& each : explain(kernel.module, kernel.function, block))
      if (!each.verdict.empty()) found.push_back(each.verdict);
    return found;
  };
  using Verdicts = std::vector<std::string>;
  EXPECT_EQ(verdicts({16, 16, 0}), Verdicts({"no bank conflict", "8-way bank conflict"}));
  EXPECT_EQ(verdicts({32, 8, 0}), Verdicts({"no bank conflict", "16-way bank conflict"}));
  EXPECT_EQ(verdicts({}), verdicts({32, 8, 0})) << "neighbours in x where nothing is known";
  EXPECT_NE(verdicts({24, 8, 0})[0].find("cannot tell"), std::string::npos);
}

TEST(PtxListing, tells_vector_accesses_that_lie_beside_their_size) {
  const std::string head16 =
      "mul.wide.u32 %rd2, %r1, 16; ld.param.u64 %rd1, [p]; add.s64 %rd3, "
      "%rd1, %rd2; ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd3";
  EXPECT_EQ(verdict(head16 + "];").find("misaligned"), std::string::npos);
  EXPECT_NE(verdict(head16 + "+4];")
                .find("misaligned: lane 0 is 4 bytes off a multiple of 16, "
                      "if the pointer is one"),
            std::string::npos)
      << verdict(head16 + "+4];");
  EXPECT_EQ(verdict(head16 + "+32];").find("misaligned"), std::string::npos);
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
  const std::string unknown = "cannot tell: the lanes differ by data, or by a number of the launch";
  // How many low bits of the lane count is a parameter.
  EXPECT_EQ(
      verdict("ld.param.u32 %r9, [q]; mov.b32 %r3, -1; shl.b32 %r4, %r3, %r9; not.b32 %r5, %r4;"
              "and.b32 %r6, %r1, %r5; mul.wide.u32 %rd1, %r6, 4; ld.global.f32 %f1, [%rd1];"),
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
  EXPECT_EQ(verdict("mul.lo.s32 %r2, %r1, %r1; ld.shared.f32 %f1, [%r2];"),
            "cannot tell: not the same in every warp");
  // Whether a lane is beyond the end is not known, though both addresses are.
  EXPECT_EQ(
      verdict("setp.lt.u32 %p1, %r1, 7; mul.wide.u32 %rd1, %r1, 4; selp.b64 %rd2, %rd1, 0, %p1;"
              "ld.global.f32 %f1, [%rd2];"),
      unknown);
  // The low bits of a sum with an unknown number are not those of the lane.
  EXPECT_EQ(verdict("ld.param.u32 %r9, [q]; add.s32 %r2, %r1, %r9; and.b32 %r3, %r2, 31;"
                    "mul.wide.u32 %rd1, %r3, 4; ld.global.f32 %f1, [%rd1];"),
            unknown);
  EXPECT_EQ(verdict("ld.param.u32 %r9, [q]; xor.b32 %r2, %r1, %r9; mul.wide.u32 %rd1, %r2, 4;"
                    "ld.global.f32 %f1, [%rd1];"),
            unknown);
}

Note access(const std::string& body, const std::string& before = "") {
  return accesses("mov.u32 %r1, %tid.x;" + body, before).at(0);
}

TEST(PtxListing, shifts_and_masks_of_the_lane_are_known_lane_by_lane) {
  // Four rows of eight lanes, 16 bytes each: whole sectors, wherever the rows lie.
  const Note rows = access(
      "ld.param.u64 %rd9, [q]; shr.u32 %r2, %r1, 3; and.b32 %r3, %r1, 7; cvt.u64.u32 %rd1, %r2;"
      "mul.lo.s64 %rd2, %rd1, %rd9; mul.wide.u32 %rd3, %r3, 16; add.s64 %rd4, %rd2, %rd3;"
      "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd4];");
  EXPECT_EQ(rows.address, "16*(%tid.x & 7) + (%tid.x >> 3)*[q]");
  EXPECT_EQ(rows.stride, "16 (28 of 31), [q] - 112 (3 of 31)");
  EXPECT_EQ(rows.verdict, "coalesced: 16 sectors of 32 bytes in 4 runs, the least");
  // The same with 4 bytes a lane and two lanes a row: 16 runs of 8 bytes.
  EXPECT_EQ(access("ld.param.u64 %rd9, [q]; shr.u32 %r2, %r1, 1; and.b32 %r3, %r1, 1;"
                   "cvt.u64.u32 %rd1, %r2; mul.lo.s64 %rd2, %rd1, %rd9; mul.wide.u32 %rd3, %r3, 4;"
                   "add.s64 %rd4, %rd2, %rd3; ld.global.b32 %r4, [%rd4];")
                .verdict,
            "not coalesced: 16 sectors of 32 bytes in 16 runs, 4 would do");
  // A warp's number is the same for its lanes.
  EXPECT_EQ(verdict("shr.u32 %r2, %r1, 5; mul.wide.u32 %rd1, %r2, 4; ld.global.f32 %f1, [%rd1];"),
            "one address for all lanes");
  // Groups of eight lanes read one word.
  const Note shared =
      access("shr.u32 %r2, %r1, 3; mul.wide.u32 %rd1, %r2, 4; ld.global.f32 %f1, [%rd1];");
  EXPECT_EQ(shared.stride, "0 (28 of 31), 4 (3 of 31)");
  EXPECT_EQ(shared.verdict, "coalesced: 1 sectors of 32 bytes, the least");
  // bfe, and a remainder and quotient by a power of two.
  const std::string same =
      "mul.wide.u32 %rd1, %r2, 128; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;"
      "st.global.b32 [%rd3], %r9;";
  const std::string verdict_of_columns = "not coalesced: 32 sectors of 32 bytes, 4 would do";
  EXPECT_EQ(verdict("bfe.u32 %r2, %r1, 0, 5; mov.b32 %r3, 0;" + same), verdict_of_columns);
  EXPECT_EQ(verdict("and.b32 %r2, %r1, 3; bfe.u32 %r3, %r1, 2, 3;" + same),
            "coalesced: 4 sectors of 32 bytes, the least");
  EXPECT_EQ(verdict("rem.u32 %r2, %r1, 4; div.u32 %r3, %r1, 4;" + same),
            "coalesced: 4 sectors of 32 bytes, the least");
}

TEST(PtxListing, disjoint_bits_are_joined_and_swizzles_are_known) {
  // (block << 7) | (lane << 2): the same as the sum.
  const Note joined = access(
      "mov.u32 %r2, %ctaid.x; shl.b32 %r3, %r2, 7; shl.b32 %r4, %r1, 2; and.b32 %r5, %r4, 124;"
      "or.b32 %r6, %r3, %r5; cvt.u64.u32 %rd1, %r6; ld.global.b32 %r7, [%rd1];");
  EXPECT_EQ(joined.address, "128*%ctaid.x + (4*%tid.x & 124)");
  EXPECT_EQ(joined.verdict, "coalesced: 4 sectors of 32 bytes, the least");
  // A column of 16-byte pieces of rows of 128 bytes: 8-way, unless the rows are swizzled.
  const std::string row = "and.b32 %r2, %r1, 7; shl.b32 %r3, %r1, 7; and.b32 %r4, %r3, 3968;",
                    load = "ld.shared.v4.b32 {%r6, %r7, %r8, %r9}, [%r5];";
  EXPECT_EQ(verdict(row + "add.s32 %r5, %r4, 16;" + load), "8-way bank conflict");
  EXPECT_EQ(
      verdict(row + "xor.b32 %r10, %r2, 1; shl.b32 %r11, %r10, 4; or.b32 %r5, %r4, %r11;" + load),
      "no bank conflict");
  // A swizzle by a number that all lanes share: whatever it is, no two lanes meet.
  EXPECT_EQ(verdict(row + "ld.param.u32 %r12, [q]; xor.b32 %r10, %r2, %r12; and.b32 %r10, %r10, 7;"
                          "shl.b32 %r11, %r10, 4; ld.shared.b32 %r5, [%r11];")
                .substr(0, 11),
            "cannot tell");  // yet a mask of that is not followed
  EXPECT_EQ(
      verdict("ld.param.u32 %r12, [q]; and.b32 %r2, %r1, 7; xor.b32 %r10, %r2, %r12; shl.b32 %r11, "
              "%r10, 2; ld.shared.b32 %r5, [%r11];"),
      "no bank conflict");
  // bfi puts the lane's row above its column.
  const Note inserted = access(
      "and.b32 %r2, %r1, 3; shr.u32 %r3, %r1, 2; and.b32 %r4, %r3, 7; shl.b32 %r5, %r2, 2;"
      "bfi.b32 %r6, %r4, %r5, 4, 3; st.shared.b32 [%r6], %r9;");
  EXPECT_EQ(inserted.stride, "4");
  EXPECT_EQ(inserted.verdict, "no bank conflict");
}

TEST(PtxListing, a_choice_that_all_lanes_share_gives_both_verdicts) {
  const std::string two =
      "mul.wide.u32 %rd1, %r1, 4; mul.wide.u32 %rd2, %r1, 8;"
      "ld.param.u32 %r2, [q]; setp.eq.s32 %p1, %r2, 0;";
  const Note picked = access(two + "selp.b64 %rd3, %rd1, %rd2, %p1; ld.global.b32 %r3, [%rd3];");
  EXPECT_EQ(picked.stride, "4; or 8");
  EXPECT_EQ(
      picked.verdict,
      "coalesced: 4 sectors of 32 bytes, the least; or not coalesced: 8 sectors of 32 bytes, 4 "
      "would do");
  // By a branch, and both of them moved on by a loop.
  const Note branched =
      access(two +
             "@%p1 bra A; mov.b64 %rd3, %rd1; bra L; A: mov.b64 %rd3, %rd2; L: ld.global.b32 %r3, "
             "[%rd3]; add.s64 %rd3, %rd3, 4096; setp.lt.u32 %p2, %r2, 9; @%p2 bra L;");
  EXPECT_EQ(branched.stride, "4; or 8");
  EXPECT_EQ(branched.verdict, picked.verdict);
  // Two choices, of which one does not change the verdict.
  EXPECT_EQ(access(two + "selp.b64 %rd3, %rd1, %rd2, %p1; selp.b32 %r4, %r1, 0, %p1;"
                         "shr.u32 %r4, %r4, 5; ld.global.b64 %rd4, [%rd3];")
                .stride,
            "4; or 8");
  // Lanes that choose each for itself are unknown still.
  EXPECT_EQ(verdict("mul.wide.u32 %rd1, %r1, 4; mul.wide.u32 %rd2, %r1, 8; setp.lt.u32 %p1, %r1, 5;"
                    "selp.b64 %rd3, %rd1, %rd2, %p1; ld.global.b32 %r3, [%rd3];")
                .substr(0, 11),
            "cannot tell");
}

TEST(PtxListing, a_read_sees_the_only_write_that_reaches_it) {
  // %rd1 is used for two addresses, one after the other; either alone is known.
  const auto found = accesses(
      "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; ld.global.f32 %f1, [%rd1];"
      "mul.wide.u32 %rd1, %r1, 8; ld.global.f32 %f2, [%rd1];");
  EXPECT_EQ(found.at(0).stride, "4");
  EXPECT_EQ(found.at(1).stride, "8");
  // Behind a loop that lanes leave at different times, the last write is the only one, but its
  // value is not that of the other lanes.
  const auto loop = accesses(
      "mov.u32 %r1, %tid.x; mov.b32 %r2, 0; L: add.s32 %r2, %r2, 1; mul.wide.u32 %rd1, %r2, 4;"
      "setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; ld.global.f32 %f1, [%rd1]; mov.b64 %rd1, 0;"
      "ld.global.f32 %f2, [%rd1];");
  EXPECT_EQ(loop.at(0).stride, "?");
  EXPECT_EQ(loop.at(1).verdict, "one address for all lanes");
}

TEST(PtxListing, lanes_that_a_branch_parted_do_not_share_what_they_wrote) {
  const std::string unknown = "cannot tell: the lanes differ by data, or by a number of the launch",
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

// The transposing quantizer keeps its tile's rows apart by a swizzle; what it loads comes in whole
// sectors. Edges and data are what is left.
TEST(PtxListing, most_accesses_of_a_transposing_kernel_are_told) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  int told = 0, free_of_conflicts = 0, all = 0;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    if (image.file != "quantize_columns_mxfp8_e4m3" || image.architecture != "sm_90a") continue;
    const auto ptx = image.ptx.bytes();
    const Module module = take(Module::parse(std::string(ptx.begin(), ptx.end())));
    for (std::size_t i = 0; i < module.functions().size(); ++i) {
      if (!module.functions()[i].has_body) continue;
      for (const Note& each : explain(module, *take(module.body(i)))) {
        all += !each.verdict.empty();
        told += !each.verdict.empty() && each.verdict.substr(0, 11) != "cannot tell";
        free_of_conflicts += each.verdict == "no bank conflict";
      }
    }
  }
  EXPECT_GT(all, 0) << "no such kernel image";
  EXPECT_GT(10 * told, 7 * all);
  EXPECT_GT(free_of_conflicts, 250);
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
