// A launch as words: names of kernels, shapes, outputs, options.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/paths.hpp"
#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

Outcome launched(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"ptx", "run",
                                    microscale::testing::test_data() + "/tools/transpose.ptx"};
  words.insert(words.end(), more.begin(), more.end());
  return microscale(words);
}

TEST(PtxLaunch, finds_a_kernel_by_a_part_of_its_name) {
  EXPECT_NE(launched({"--kernel", "tiled"})
                .err.find("several kernels are called; choose one of levels::tiled<32, 1024>"),
            std::string::npos);
  EXPECT_NE(launched({"--kernel", "absent"})
                .err.find("no kernel here is called; choose one of levels::naive(levels::Args)"),
            std::string::npos);
  EXPECT_NE(launched({"--kernel", "naive"})
                .err.find("0 --arg for a kernel that takes 1: levels::Args; give one for each"),
            std::string::npos);
  EXPECT_NE(launched({}).err.find("the file has 3 kernels; choose one with --kernel: levels::"),
            std::string::npos);
  EXPECT_EQ(microscale(transpose_words("run", "tiled<33")).code, 0);
}

TEST(PtxLaunch, refuses_words_that_make_no_launch) {
  const std::pair<std::vector<std::string>, std::string> mistakes[] = {
      {{"--grid", "1,2,3,4"}, "--grid got '1,2,3,4'; it takes X, X,Y or X,Y,Z"},
      {{"--block", "x"}, "--block got 'x'"},
      {{"--schedule", "revers"}, "did you mean reverse?"},
      {{"--completion", "never"}, "choose one of eager, latest, random"},
      {{"--budget", "0"}, "--budget"},
      {{"--out", "y"}, "it takes NAME=FILE.npy"},
      {{"--kernel", "naive", "--arg", "u32:1", "--out", "0=a.npy"},
       "that argument is a value, not a buffer"},
      {{"--kernel", "naive", "--out", "y=a.npy"}, "--out names 'y'"},
      {{"--kernel", "naive", "--block", "2048", "--arg", "null", "--arg", "null", "--arg", "null",
        "--arg", "null", "--arg", "null", "--arg", "null"},
       "a block of"},
      {{"--kernel", "naive", "--shared", "1M", "--arg", "null", "--arg", "null", "--arg", "null",
        "--arg", "null", "--arg", "null", "--arg", "null"},
       "1048576 bytes of shared memory"},
      {{"--target", "banana"}, "choose one of sm_75, sm_80"}};
  for (const auto& [words, says] : mistakes) {
    const Outcome outcome = launched(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
}

TEST(PtxLaunch, names_what_a_kernel_takes) {
  const Scratch scratch;
  const Outcome outcome =
      microscale({"ptx", "run", scratch.write("k.ptx", affine_ptx), "--arg", "f32[4]"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("1 --arg for a kernel that takes 3: u64 affine_param_0, f32 "
                             "affine_param_1, u64 affine_param_2; give one for each"),
            std::string::npos)
      << outcome.err;
}

TEST(PtxLaunch, names_the_file_that_is_wrong) {
  const Scratch scratch;
  const std::string path = scratch.write("broken.ptx", ".version 8.0\n.target sm_90a\n.entri k");
  for (const std::string action : {"explain", "run", "profile"}) {
    const Outcome broken = microscale({"ptx", action, path});
    EXPECT_EQ(broken.code, 3);
    EXPECT_NE(broken.err.find("broken.ptx: PTX line 3"), std::string::npos) << broken.err;
    const Outcome folder = microscale({"ptx", action, scratch.file("")});
    EXPECT_EQ(folder.code, 4);
    EXPECT_NE(folder.err.find("it is a folder"), std::string::npos) << folder.err;
  }
}

TEST(PtxLaunch, checks_what_it_will_write_before_it_runs) {
  const Scratch scratch;
  const std::string path = scratch.write("k.ptx", affine_ptx);
  std::filesystem::create_directory(scratch.file("folder"));
  const auto refused = [&](const std::vector<std::string>& more, const std::string& says) {
    std::vector<std::string> words = {"ptx",      "profile",        path,    "--block", "32",
                                      "--arg",    "x=f32[32]:iota", "--arg", "f32:2",   "--arg",
                                      "y=f32[32]"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = microscale(words);
    EXPECT_NE(outcome.code, 0) << says;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  };
  refused({"--out", "y=" + path}, "is read or written already");
  refused({"--html", path}, "is read or written already");
  const std::string file = scratch.file("a.npy");
  refused({"--out", "y=" + file, "--out", "x=" + file}, "is read or written already");
  refused({"--html", scratch.file("folder")}, "it is a folder; name a file");
  refused({"--out", "y=" + scratch.file("no/a.npy")}, "its folder does not exist");
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(PtxLaunch, a_kernel_of_that_very_name_goes_before_those_whose_names_hold_it) {
  const Scratch scratch;
  const std::string file = scratch.write(
      "k.ptx",
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry _Z11copy_sharedv() { ret; }\n.visible .entry _Z4copyv() { ret; }\n");
  const Outcome exact = microscale({"ptx", "run", file, "--kernel", "copy"});
  EXPECT_EQ(exact.code, 0) << exact.err;
  EXPECT_NE(exact.err.find("copy():"), std::string::npos) << exact.err;
  EXPECT_NE(microscale({"ptx", "run", file, "--kernel", "cop"}).code, 0);
}

}  // namespace
}  // namespace microscale::testing
