// Faults around block-scaled mma: registers, selectors, containers, fragments, scales, the E2M1
// encoder.
#include "emulator/mutations/mutation.hpp"
#include "emulator/mutations/oracle.hpp"

namespace microscale::emulator::mutations {
namespace {

constexpr std::size_t depth = 128;  // K of both kernels

void run_mx_once(const std::string& text, const LaunchOptions& options, const std::vector<float>& a,
                 const std::vector<float>& b, const char* name, Trial& trial) {
  Memory memory;
  const std::uint64_t at_a = upload(memory, a), at_b = upload(memory, b);
  const std::uint64_t at_d = upload(memory, std::vector<float>(16 * 8, -999.0f));
  Trial once = run_text(memory, text, request_for("mx_tile", {1, 1, 1}, {32, 1, 1}), options,
                        [&] { return arguments(at_a, at_b, at_d); });
  note(trial,
       close(download<float>(memory, at_d, 16 * 8),
             product(through_mxfp4(a), through_mxfp4(b), depth), 1e-6),
       name);
  trial.refusal = once.refusal;
  for (Finding& each : once.report.findings) trial.report.findings.push_back(std::move(each));
  trial.report.completed &= once.report.completed;
}

Trial run_mx(const std::string& text, const LaunchOptions& options) {
  Trial trial;
  std::vector<float> a(16 * depth), b(8 * depth);
  // Ones where k is the row (column), modulo 16: 8 on the diagonal of D.
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = i % 16 == i / depth ? 1.0f : 0.0f;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = i % 16 == i / depth ? 1.0f : 0.0f;
  run_mx_once(text, options, a, b, "identity", trial);
  // Values in the middle between two codes, one of each block of 32 picked by each column.
  constexpr float middles[] = {0.25f, -0.75f, 1.25f, -1.75f, 2.5f, 3.5f, -2.5f, 0.75f};
  Mixed random(5);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = i % 32 == 31 ? 3.5f : middles[random.below(8)];
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = i % 32 == 4 * (i / depth) + 1 ? 1.0f : 0.0f;
  run_mx_once(text, options, a, b, "ties to even", trial);
  for (float& each : a)
    each = std::ldexp(static_cast<float>(random.below(4001)) - 2000,
                      -static_cast<int>(random.below(5)));
  for (float& each : b)
    each = std::ldexp(static_cast<float>(random.below(4001)) - 2000,
                      -static_cast<int>(random.below(5)));
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] *= static_cast<float>(1 << (i / 32 * 7 % 5));  // scales differ
  for (std::size_t i = 0; i < b.size(); ++i) b[i] *= static_cast<float>(1 << (i / 32 * 3 % 4));
  run_mx_once(text, options, a, b, "FP64 product", trial);
  return trial;
}

Trial run_nvfp4(const std::string& text, const LaunchOptions& options) {
  Memory memory;
  Mixed random(11);
  std::vector<std::uint8_t> tile(32 * 64 + 8 * 64 + 32 * 8 + 8 * 8);  // A, B, their scales
  constexpr std::size_t codes = 40 * 64;
  for (std::size_t i = 0; i < codes; ++i) tile[i] = static_cast<std::uint8_t>(random());
  for (std::size_t i = codes; i < tile.size(); ++i)
    tile[i] = static_cast<std::uint8_t>(24 + random.below(48));
  std::vector<double> values(40 * depth);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        e2m1(static_cast<std::uint32_t>(tile[i / 2] >> (i % 2 * 4))) * ue4m3(tile[codes + i / 16]);
  const std::vector<double> a(values.begin(), values.begin() + 32 * depth),
      b(values.begin() + 32 * depth, values.end());
  const std::uint64_t in = upload(memory, tile),
                      out = upload(memory, std::vector<float>(32 * 8, -999.0f));
  Trial trial = run_text(memory, text, request_for("nvfp4_tile", {1, 1, 1}, {32, 1, 1}), options,
                         [&] { return arguments(in, out); });
  note(trial, close(download<float>(memory, out, 32 * 8), product(a, b, depth), 1e-6),
       "FP64 product");
  return trial;
}

constexpr Kernel mx_tile{"mx_tile.ptx", run_mx}, nvfp4_tile{"nvfp4_tile.ptx", run_nvfp4};

using enum FindingKind;

constexpr Fault mx_faults[] = {
    {"MXFP4 tile: A fragment of two registers", "{%r67, %r68, %r69, %r70},", "{%r67, %r68},",
     refusal("has 2 registers where 4 are needed")},
    {"MXFP4 tile: B fragment of one register", "{%r71, %r72},", "{%r71},",
     refusal("has 1 registers where 2 are needed")},
    {"MXFP4 tile: scale selectors left out", "%r12, {%rs1, 0},\n%r13, {%rs1, 0};", "%r12,\n%r13;",
     refusal("needs D, A, B, C, and for A and B a scale and its selector")},
    {"MXFP4 tile: two scales along K", "scale_vec::1X", "scale_vec::2X",
     refusal("kind::mxf8f6f4 takes .scale_vec::1X and .ue8m0")},
    {"MXFP4 tile: m16n8k64, as if codes were packed", "m16n8k32", "m16n8k64",
     refusal("kind::mxf8f6f4 is m16n8k32")},
    {"MXFP4 tile: built for Hopper", ".target sm_120f", ".target sm_90a", refusal("sm_90a")},
    {"MXFP4 tile: scale selector of the neighbour", "cvt.u16.u32 %rs1, %r66;",
     "cvt.u16.u32 %rs1, %r66; xor.b16 %rs1, %rs1, 1;", check("FP64 product")},
    {"MXFP4 tile: scale selector off by one, out of range at the end", "cvt.u16.u32 %rs1, %r66;",
     "cvt.u16.u32 %rs1, %r66; add.u16 %rs1, %rs1, 1;", finding(bad_selector, "mma.sync"),
     "byte-id 4"},
    {"MXFP4 tile: scale selector different from lane to lane", "cvt.u16.u32 %rs1, %r66;",
     "cvt.u16.u32 %rs1, %r47;", finding(bad_selector, "mma.sync"), "in lane 1"},
    {"MXFP4 tile: code in bits 3-0", "shl.b32 %r3, %r3, 2;  // to bits 5-2", "",
     finding(padding, "mma.sync"), "an e2m1 code stands in bits 5-2"},
    {"MXFP4 tile: ties rounded up", "setp.gt.f32 p, %f1, 0f40200000;",
     "setp.ge.f32 p, %f1, 0f40200000;", check("ties to even")},
    {"MXFP4 tile: scale one power of two too small", "sub.u32 %r29, %r30, 1;",
     "sub.u32 %r29, %r30, 2;", check("FP64 product")},
    {"MXFP4 tile: row of A by lane / 16", "%r1, 2;  // row of the fragment of A", "%r1, 4;",
     check("identity")},
    {"MXFP4 tile: column of B by lane / 16", "%r1, 2;  // column of the fragment of B", "%r1, 4;",
     check("identity")},
    {"MXFP4 tile: K by lane % 2", "and.b32 %r47, %r1, 3;", "and.b32 %r47, %r1, 1;",
     check("identity")},
    {"MXFP4 tile: scales of rows 8 to 15 from lanes that hold others",
     "mad.lo.u32 %r49, %r50, 8, %r51;", "mad.lo.u32 %r49, %r50, 0, %r51;", check("FP64 product")},
    {"MXFP4 tile: __syncwarp dropped", "bar.warp.sync 0xffffffff;  // codes and scales", "",
     finding(race, "ld.shared.u32")},
    {"MXFP4 tile: a third of the blocks is not quantized", "setp.lt.u32 \t%p4, %r77, 64;",
     "setp.lt.u32 \t%p4, %r77, 32;", finding(uninitialised_memory, "ld.shared.u32")},
    {"MXFP4 tile: mma without lane 31", "mma.sync.aligned.m16n8k32",
     "setp.ne.u32 %p4, %r1, 31;\n@%p4 mma.sync.aligned.m16n8k32",
     finding(divergent_aligned, "mma.sync"), "lane 31"},
};

constexpr Fault nvfp4_faults[] = {
    {"NVFP4 tile: cp.async wait dropped", "cp.async.wait_all;", "",
     finding(missing_wait, "ldmatrix")},
    {"NVFP4 tile: __syncwarp after the wait dropped", "bar.warp.sync 0xffffffff;  // the tile", "",
     finding(missing_wait, "ldmatrix")},
    {"NVFP4 tile: the last scales are not copied", "setp.lt.u32 \t%p3, %r63, 2368;",
     "setp.lt.u32 \t%p3, %r63, 2048;", finding(uninitialised_memory, "ld.shared.u32")},
    {"NVFP4 tile: thread-id of A's scales off by one", "cvt.u16.u32 %rs2, %r64;",
     "cvt.u16.u32 %rs2, %r64; xor.b16 %rs2, %rs2, 1;", check("FP64 product")},
    {"NVFP4 tile: byte-id 1 with four scales", "%r51, {0, %rs2},", "%r51, {1, %rs2},",
     finding(bad_selector, "mma.sync"), "byte-id 1"},
    {"NVFP4 tile: thread-id 4", "%r52, {0, 0};", "%r52, {0, 4};", finding(bad_selector, "mma.sync"),
     "thread-id 4"},
    {"NVFP4 tile: a scale with its sign set", "ld.shared.u32 \t%r52, [%r59];",
     "ld.shared.u32 \t%r52, [%r59]; or.b32 %r52, %r52, 128;", finding(misuse, "mma.sync"), "bit 7"},
    {"NVFP4 tile: UE8M0 for UE4M3", "e2m1.f32.ue4m3", "e2m1.f32.ue8m0",
     refusal("kind::mxf4nvf4 takes .scale_vec::2X with .ue8m0 or 4X with .ue4m3")},
    {"NVFP4 tile: ldmatrix halves by lane / 8", "shr.u32 %r17, %r1, 4;", "shr.u32 %r17, %r1, 3;",
     check("FP64 product")},
    {"NVFP4 tile: ldmatrix transposes", "x4.shared.b16", "x4.trans.shared.b16",
     check("FP64 product")},
    {"NVFP4 tile: ldmatrix rows 8 bytes off", "{%r37, %r38, %r39, %r40}, [%r41];",
     "{%r37, %r38, %r39, %r40}, [%r41+8];", finding(misaligned, "ldmatrix")},
    {"NVFP4 tile: accumulators not zeroed", "mov.f32 \t%f18, 0f00000000;", "",
     finding(uninitialised_register, "mov.f32"), "%f18"},
};

TEST(Mutations, mxfp4_tile_is_clean) { expect_clean(mx_tile); }
TEST(Mutations, mxfp4_tile_faults_are_named) { expect_caught(mx_tile, mx_faults); }
TEST(Mutations, nvfp4_tile_is_clean) { expect_clean(nvfp4_tile); }
TEST(Mutations, nvfp4_tile_faults_are_named) { expect_caught(nvfp4_tile, nvfp4_faults); }

}  // namespace
}  // namespace microscale::emulator::mutations
