// ptx run: results, findings and exit codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

TEST(PtxRun, says_nothing_on_standard_output_when_nothing_is_wrong) {
  const Outcome outcome = microscale(transpose_words("run", "tiled<33"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("levels::tiled<33, 1024>(levels::Args): 3 x 2 blocks of 1024 threads, "
                             "10,368 warp-instructions, "
                             "no findings"),
            std::string::npos)
      << outcome.err;
}

TEST(PtxRun, prints_each_finding_on_a_line_with_its_cure_and_exits_with_1) {
  const Scratch scratch;
  const std::vector<std::string> words = {
      "ptx",          "run",    scratch.write("k.ptx", affine_ptx),
      "--block",      "64",     "--arg",
      "f32[63]:iota", "--arg",  "f32:1",
      "--arg",        "f32[64]"};
  const Outcome outcome = microscale(words);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out.rfind(
                "out-of-bounds: kernel affine, block (0,0,0), thread (63,0,0), PTX line 19: ", 0),
            0u)
      << outcome.out;
  EXPECT_NE(outcome.out.find(" [arg0 + 252]\n  in CUDA: an index or a pointer leaves its array\n"
                             "  cure: compare the index"),
            std::string::npos)
      << outcome.out;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3);
  EXPECT_EQ(microscale(words).out, outcome.out) << "addresses are those of the machine";
  std::vector<std::string> with_json = words;
  with_json.push_back("--json");
  const Outcome document = microscale(with_json);
  EXPECT_EQ(document.code, 1);
  const auto json = nlohmann::json::parse(document.out);
  EXPECT_EQ(json["completed"], false);
  EXPECT_EQ(json["findings"][0]["kind"], "out-of-bounds");
  EXPECT_EQ(json["findings"][0]["thread"], nlohmann::json({63, 0, 0}));
  EXPECT_EQ(json["findings"][0]["ptx_line"], 19);
  EXPECT_EQ(json["findings"][0]["object"], "arg0 + 252");
  EXPECT_EQ(json["findings"][0]["access"], "reads");
}

TEST(PtxRun, notices_memory_that_nobody_wrote_and_a_loop_without_end) {
  const Scratch scratch;
  const Outcome unwritten =
      microscale({"ptx", "run", scratch.write("k.ptx", affine_ptx), "--block", "32", "--arg",
                  "f32[32]", "--arg", "f32:1", "--arg", "f32[32]"});
  EXPECT_EQ(unwritten.code, 1);
  EXPECT_NE(unwritten.out.find("uninitialised-memory"), std::string::npos) << unwritten.out;
  const Outcome endless =
      microscale({"ptx", "run",
                  scratch.write("e.ptx",
                                ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                ".visible .entry k() {\n$L1:\n bra $L1;\n}\n"),
                  "--block", "32", "--budget", "1000"});
  EXPECT_EQ(endless.code, 1);
  EXPECT_NE(endless.out.find("endless"), std::string::npos) << endless.out << endless.err;
}

TEST(PtxRun, names_outputs_that_nobody_wrote_and_prints_what_kernels_print) {
  const Scratch scratch;
  const std::string text =
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
      ".global .align 1 .b8 text[4] = {104, 105, 10, 0};\n"
      ".visible .entry k(.param .u64 o) {\n.reg .b64 %d<6>; .reg .b32 %r<4>; .reg .pred %p;\n"
      "ld.param.u64 %d1, [o]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 8; add.s64 %d3, %d1, "
      "%d2;\n"
      "st.global.u32 [%d3], %r1; setp.ne.u32 %p, %r1, 0; @%p bra END;\n"
      "mov.u64 %d4, text; cvta.global.u64 %d4, %d4; mov.u64 %d5, 0;\n{ .param .b64 f; "
      "st.param.b64 [f], %d4; .param .b64 a; st.param.b64 [a], %d5; .param .b32 back; "
      "call.uni (back), vprintf, (f, a); }\nEND: ret;\n}\n";
  const std::vector<std::string> words = {"ptx",       "run",   scratch.write("k.ptx", text),
                                          "--block",   "32",    "--arg",
                                          "o=s32[64]", "--out", "o=" + scratch.file("o.npy")};
  const Outcome outcome = microscale(words);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "hi\no: 32 of 64 elements were never written, the first at 1\n");
  std::vector<std::string> with_json = words;
  with_json.push_back("--json");
  const auto json = nlohmann::json::parse(microscale(with_json).out);
  EXPECT_EQ(json["printed"], "hi\n");
  EXPECT_EQ(json["unwritten"].size(), 1u);
}

}  // namespace
}  // namespace microscale::testing
