// ldmatrix and stmatrix in the machine: every form through shared memory.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "emulator/ops/matrix.hpp"
#include "emulator/tensor/ldmatrix.hpp"
#include "microscale/emulator.hpp"

namespace microscale::testing {
namespace {

namespace tensor = emulator::tensor;
using Words = std::vector<std::uint32_t>;
using emulator::FindingKind;

/// Each of 32 lanes stores 16 bytes of `in` to row `lane` (32 bytes apart), then `body` runs with
/// the address of that row in %r1; %r4 to %r7 are stored.
std::string kernel(const std::string& body, int stored_words = 4) {
  std::string stores;
  for (int word = 0; word < stored_words; ++word)
    stores +=
        fmt::format("ld.global.u32 %r2, [%rd1+{0}]; st.shared.u32 [%r1+{0}], %r2;\n", 4 * word);
  return ".version 9.0\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 in, "
         ".param .u64 out)\n{\n"
         ".reg .b32 %r<12>; .reg .b64 %rd<6>; .reg .pred %p; .shared .align 16 .b8 rows[1024];\n"
         "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r9, %tid.x;\n"
         "mul.wide.u32 %rd3, %r9, 16; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;\n"
         "mov.u32 %r0, rows; shl.b32 %r1, %r9, 5; add.u32 %r1, %r1, %r0;\n"
         "mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;\n" +
         stores + "bar.sync 0;\n" + body +
         "st.global.u32 [%rd2], %r4; st.global.u32 [%rd2+4], %r5; st.global.u32 [%rd2+8], %r6; "
         "st.global.u32 [%rd2+12], %r7;\nret;\n}\n";
}

struct Ran {
  emulator::LaunchReport report;
  Words out;
};

Words input() {
  Words words;
  for (std::uint32_t i = 0; i < 128; ++i) words.push_back(i * 0x9E3779B9u);
  return words;
}

Ran run(const std::string& text) {
  emulator::Memory memory;
  emulator::Module module(memory, text);
  const Words in = input();
  const std::uint64_t from = memory.allocate(512), to = memory.allocate(512);
  memory.write(from, in.data(), 512);
  emulator::LaunchRequest request;
  request.kernel = "k";
  request.block = {32};
  request.arguments = emulator::arguments(from, to);
  Ran ran{launch(memory, module, request), Words(128)};
  if (ran.report.findings.empty()) memory.read(ran.out.data(), to, 512);
  return ran;
}

std::string sentences(const Ran& ran) {
  std::string text;
  for (const emulator::Finding& each : ran.report.findings) text += to_sentence(each) + "\n";
  return text;
}

std::string destinations(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}%r{}", i ? ", " : "", 4 + i);
  return "{" + text + "}";
}

TEST(LdmatrixHandler, every_form_gives_what_its_map_says) {
  tensor::MatrixRows rows;
  const Words in = input();
  std::memcpy(rows.data(), in.data(), 512);
  const char* forms[] = {"m8n8.x1.shared.b16",
                         "m8n8.x2.shared.b16",
                         "m8n8.x4.shared.b16",
                         "m8n8.x4.trans.shared.b16",
                         "m8n8.x1.trans.shared::cta.b16",
                         "m16n16.x1.trans.shared.b8",
                         "m16n16.x2.trans.shared.b8",
                         "m8n16.x1.shared.b8x16.b4x16_p64",
                         "m8n16.x4.shared.b8x16.b4x16_p64",
                         "m8n16.x2.shared.b8x16.b6x16_p32",
                         "m16n16.x2.trans.shared.b8x16.b4x16_p64"};
  for (const std::string form : forms) {
    std::vector<std::string_view> words;
    for (std::size_t at = 0; at <= form.size();) {
      const std::size_t end = std::min(form.find('.', at), form.size());
      words.push_back(std::string_view(form).substr(at, end - at));
      at = end + 1;
    }
    const tensor::MatrixMove move = tensor::ldmatrix_move(words);
    EXPECT_EQ(emulator::unpack_move(emulator::pack_move(move)).count, move.count);
    const int stored = form.find("b4x16") != std::string::npos   ? 2
                       : form.find("b6x16") != std::string::npos ? 3
                                                                 : 4;
    const Ran ran = run(kernel(
        "ldmatrix.sync.aligned." + form + " " + destinations(registers_of(move)) + ", [%r1];\n",
        stored));
    ASSERT_EQ(sentences(ran), "") << form;  // padding that nobody wrote is not read
    std::uint32_t wanted[4][32] = {};
    std::uint32_t* const d[4] = {wanted[0], wanted[1], wanted[2], wanted[3]};
    ldmatrix(move, rows, d);
    for (std::size_t lane = 0; lane < 32; ++lane)
      for (std::size_t reg = 0; reg < 4; ++reg)
        ASSERT_EQ(ran.out[4 * lane + reg], wanted[reg][lane]) << form << lane;
  }
}

TEST(StmatrixHandler, what_it_stores_ldmatrix_loads) {
  for (const std::string trans : {"", ".trans"}) {
    const std::string form = ".sync.aligned.m8n8.x4" + trans + ".shared.b16 ";
    const Ran ran =
        run(kernel("ldmatrix" + form + destinations(4) + ", [%r1];\nbar.sync 0;\nstmatrix" + form +
                   "[%r1+16], " + destinations(4) +
                   ";\nbar.sync 0;\n"
                   "ld.shared.v4.u32 " +
                   destinations(4) + ", [%r1+16];\n"));
    EXPECT_EQ(sentences(ran), "");
    EXPECT_EQ(ran.out, input());
  }
}

TEST(MovmatrixHandler, transposes_what_ldmatrix_loads) {
  const std::string load = "ldmatrix.sync.aligned.m8n8.x4";
  std::string moves;
  for (const std::string reg : {"%r4", "%r5", "%r6", "%r7"})
    moves += "movmatrix.sync.aligned.m8n8.trans.b16 " + reg + ", " + reg + ";\n";
  const std::string from = ".shared.b16 " + destinations(4) + ", [%r1];\n";
  const Ran moved = run(kernel(load + from + moves)),
            transposed = run(kernel(load + ".trans" + from));
  EXPECT_EQ(sentences(moved), "");
  EXPECT_EQ(moved.out, transposed.out);
  EXPECT_NE(moved.out, run(kernel(load + from)).out);
}

TEST(LdmatrixHandler, reports_misaligned_rows_unwritten_bytes_and_missing_lanes) {
  const auto finding = [](const Ran& ran, FindingKind kind) {
    for (const emulator::Finding& each : ran.report.findings)
      if (each.kind == kind) return each.message;
    return std::string();
  };
  const std::string load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, ";
  EXPECT_NE(finding(run(kernel(load + "[%r1+8];\n")), FindingKind::misaligned), "");
  EXPECT_NE(finding(run(kernel(load + "[%r1];\n", 3)), FindingKind::uninitialised_memory), "");
  const std::string away = finding(run(kernel("setp.ne.u32 %p, %r9, 5;\n@%p " + load + "[%r1];\n")),
                                   FindingKind::divergent_aligned);
  EXPECT_NE(away.find("lane 5"), std::string::npos) << away;
}

}  // namespace
}  // namespace microscale::testing
