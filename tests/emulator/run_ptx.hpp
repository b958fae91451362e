// Runs a few lines of PTX on one warp and hands back what each lane computed.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "microscale/emulator.hpp"

namespace microscale::emulator::testing {

/// Register declarations that the snippets below may use.
inline const std::string registers =
    ".reg .pred %p<20>; .reg .b16 %rs<40>; .reg .b32 %r<60>; .reg .b64 %rd<40>; .reg .f32 %f<20>; "
    ".reg .f64 %fd<20>;\n";

/// An entry `k` with a parameter `p` (64 bits, an address), and `body`; `ret` follows.
inline std::string entry(const std::string& body, const std::string& before = "",
                         const std::string& target = "sm_120a") {
  return ".version 9.0\n.target " + target + "\n.address_size 64\n" + before +
         "\n.visible .entry k(.param .u64 p)\n{\n" + registers + body + "\nret;\n}\n";
}

struct Ran {
  LaunchReport report;
  std::vector<std::uint32_t> words;

  std::string findings() const {
    std::string text;
    for (const Finding& each : report.findings) text += to_sentence(each) + "\n";
    return text;
  }
  int count(FindingKind kind) const {
    int found = 0;
    for (const Finding& each : report.findings) found += each.kind == kind;
    return found;
  }
};

/// Launches kernel `k` with `p` at `input` (uint32), whose words are read back.
inline Ran launch_words(const std::string& text, std::vector<std::uint32_t> input,
                        LaunchRequest request = {}) {
  Memory memory;
  Module module(memory, text);
  const auto bytes = static_cast<std::int64_t>(4 * input.size());
  const std::uint64_t buffer = memory.allocate(bytes);
  memory.write(buffer, input.data(), bytes);
  request.kernel = "k";
  request.arguments = arguments(buffer);
  Ran ran;
  ran.report = launch(memory, module, request);
  ran.words = std::move(input);
  memory.read(ran.words.data(), buffer, bytes);
  return ran;
}

/// A request of `blocks` blocks of `threads` threads.
inline LaunchRequest shaped(std::uint32_t blocks, std::uint32_t threads,
                            LaunchOptions options = {}) {
  LaunchRequest request;
  request.grid.x = blocks;
  request.block.x = threads;
  request.options = options;
  return request;
}

/// Loads %rd30 (the buffer), %r50 (%tid.x) and %rd32 (the thread's word of it).
inline const std::string own_word =
    "ld.param.u64 %rd30, [p]; mov.u32 %r50, %tid.x; mul.wide.u32 %rd31, %r50, 4; add.s64 %rd32, "
    "%rd30, %rd31;\n";

using Lanes = std::array<std::uint32_t, 32>;
using Lanes64 = std::array<std::uint64_t, 32>;

/// `code` sees %r1, %r2, %r3 (a, b, c of its lane) and %rd1, %rd2, %rd3 (the 64-bit ones) and
/// leaves its answer in %r0 and %rd0, which begin as 0.
struct Computed {
  Lanes r;
  Lanes64 rd;
};
inline Computed compute(const std::string& code, const Lanes64& a, const Lanes64& b = {},
                        const Lanes64& c = {}) {
  std::vector<std::uint32_t> words(32 * 8);
  for (std::size_t i = 0; i < 32; ++i) {
    const std::uint64_t values[4] = {a[i], b[i], c[i], 0};
    for (std::size_t k = 0; k < 4; ++k) {
      words[8 * i + 2 * k] = static_cast<std::uint32_t>(values[k]);
      words[8 * i + 2 * k + 1] = static_cast<std::uint32_t>(values[k] >> 32);
    }
  }
  const std::string body =
      "ld.param.u64 %rd30, [p]; mov.u32 %r50, %tid.x; mul.wide.u32 %rd31, %r50, 32; add.s64 %rd32, "
      "%rd30, %rd31;\n"
      "ld.global.v2.u64 {%rd1, %rd2}, [%rd32]; ld.global.u64 %rd3, [%rd32+16];\n"
      "cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; cvt.u32.u64 %r3, %rd3; mov.u32 %r0, 0; "
      "mov.u64 %rd0, 0;\n"
      "cvt.u16.u32 %rs1, %r1; cvt.u16.u32 %rs2, %r2; cvt.u16.u32 %rs3, %r3;\n"
      "mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3; mov.b64 %fd1, %rd1; mov.b64 %fd2, "
      "%rd2; mov.b64 %fd3, %rd3;\n" +
      code + "\nst.global.u64 [%rd32+16], %rd0; st.global.u32 [%rd32+24], %r0;\n";
  const Ran ran = launch_words(entry(body), words,
                               {.kernel = "",
                                .grid = {},
                                .block = {32},
                                .cluster = {},
                                .dynamic_shared_bytes = 0,
                                .arguments = {},
                                .options = {}});
  EXPECT_EQ(ran.findings(), "") << code;
  Computed result;
  for (std::size_t i = 0; i < 32; ++i) {
    result.rd[i] = ran.words[8 * i + 4] | static_cast<std::uint64_t>(ran.words[8 * i + 5]) << 32;
    result.r[i] = ran.words[8 * i + 6];
  }
  return result;
}

/// 32-bit answers of `code` for the operands, each in lane 0 of its own.
inline std::uint32_t word(const std::string& code, std::uint64_t a, std::uint64_t b = 0,
                          std::uint64_t c = 0) {
  Lanes64 as, bs, cs;
  as.fill(a), bs.fill(b), cs.fill(c);
  return compute(code, as, bs, cs).r[0];
}
inline std::uint64_t word64(const std::string& code, std::uint64_t a, std::uint64_t b = 0,
                            std::uint64_t c = 0) {
  Lanes64 as, bs, cs;
  as.fill(a), bs.fill(b), cs.fill(c);
  return compute(code, as, bs, cs).rd[0];
}

/// Bits that show what arithmetic does at its edges, and others mixed from `seed`.
inline Lanes64 edges(std::uint64_t seed) {
  const std::uint64_t special[] = {0,
                                   1,
                                   2,
                                   31,
                                   32,
                                   33,
                                   63,
                                   64,
                                   255,
                                   256,
                                   0x7fff,
                                   0x8000,
                                   0xffff,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0x7fffffffffffffff,
                                   0x8000000000000000,
                                   0xffffffffffffffff};
  Lanes64 values;
  for (std::size_t i = 0; i < 32; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values[i] = (seed >> 60) < 7 ? special[(seed >> 32) % std::size(special)] : seed ^ (seed >> 29);
  }
  return values;
}

}  // namespace microscale::emulator::testing
