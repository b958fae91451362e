// A kernel of one wgmma, m64n8k16 of f16 ones, in parts that a test may change: D is 16 everywhere.
#pragma once

#include <fmt/format.h>

#include <string>

#include "emulator/run_ptx.hpp"

namespace microscale::emulator::testing {

/// Statements of the kernel `k`, in this order. %r50 is %tid.x, %rd32 the thread's word of the
/// buffer, %r1 the address of the tile (A, 2048 bytes, then B), %rd1 and %rd2 their descriptors,
/// %r4 to %r7 A's fragment (ones), %f0 to %f3 D, %p1 true, %r51 the number of the warp.
struct WgmmaText {
  std::string before;  // the tile is filled
  std::string fill =
      "mov.u32 %r10, 0x3c003c00; shl.b32 %r11, %r50, 4; add.u32 %r12, %r1, %r11;\n"
      "st.shared.v4.b32 [%r12], {%r10, %r10, %r10, %r10};\n"
      "setp.lt.u32 %p2, %r50, 16; @%p2 st.shared.v4.b32 [%r12+2048], {%r10, %r10, %r10, %r10};\n";
  std::string proxy = "fence.proxy.async.shared::cta;\n";
  std::string barrier = "bar.sync 0;\n";
  std::string accumulators =
      "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; "
      "mov.f32 %f3, %f0;\n";
  std::string fence = "wgmma.fence.sync.aligned;\n";
  std::string multiply =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, "
      "%rd1, %rd2, %p1, 1, 1, 0, 0;\n";
  std::string commit = "wgmma.commit_group.sync.aligned;\n";
  std::string between;  // not waited for
  std::string wait = "wgmma.wait_group.sync.aligned 0;\n";
  std::string after = "st.global.f32 [%rd32], %f3;\n";
  std::string target = "sm_90a";

  std::string text() const {
    return entry(".shared .align 1024 .b8 tile[4096];\n" + own_word +
                     "mov.u32 %r1, tile; shr.u32 %r2, %r1, 4; cvt.u64.u32 %rd1, %r2;\n"
                     // Core matrices of 128 bytes: two along K, then the next eight rows.
                     "or.b64 %rd1, %rd1, 0x1000080000; add.s64 %rd2, %rd1, 128;\n"
                     "setp.eq.u32 %p1, %r1, %r1; shr.u32 %r51, %r50, 5;\n"
                     "mov.u32 %r4, 0x3c003c00; mov.u32 %r5, %r4; mov.u32 %r6, %r4; mov.u32 %r7, "
                     "%r4;\n" +
                     before + fill + proxy + barrier + accumulators + fence + multiply + commit +
                     between + wait + after,
                 "", target);
  }
  /// 512 words: 160 threads may store.
  Ran run(LaunchOptions options = {}, std::uint32_t threads = 128) const {
    return launch_words(text(), std::vector<std::uint32_t>(512), shaped(1, threads, options));
  }
};

/// As WgmmaText::multiply, with A from registers.
inline const std::string multiply_fragments =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, "
    "%rd2, %p1, 1, 1, 0;\n";

/// Whether a finding of that kind says `words`.
inline bool says(const Ran& ran, FindingKind kind, const std::string& words) {
  for (const Finding& each : ran.report.findings)
    if (each.kind == kind && each.message.find(words) != std::string::npos) return true;
  return false;
}

}  // namespace microscale::emulator::testing
