// Where the PTX of a command comes from: .cu files by nvcc, and what is no PTX.
#include <gtest/gtest.h>

#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

// A program in the place of nvcc, which shows what it was called with.
std::string compiler(const Scratch& scratch, const std::string& script) {
  const std::string path = scratch.write("nvcc", "#!/bin/sh\n" + script);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(PtxSource, cuda_source_is_compiled_by_nvcc) {
  const Scratch scratch;
  const std::string ptx = scratch.write("made.ptx", affine_ptx);
  const std::string nvcc =
      compiler(scratch, "[ \"$1 $2 $3 $4\" = '-ptx -lineinfo -arch=sm_100f -o' ] && cp " + ptx +
                            " \"$5\"\n");
  const Outcome outcome = microscale(
      {"ptx", "run", scratch.write("k.cu", "__global__ void affine();"), "--target", "sm_100f",
       "--block", "32", "--arg", "f32[32]:iota", "--arg", "f32:2", "--arg", "f32[32]:zeros"},
      "", {{"MICROSCALE_NVCC", nvcc}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("no findings"), std::string::npos) << outcome.err;
}

TEST(PtxSource, what_the_compiler_says_is_shown) {
  const Scratch scratch;
  const std::string nvcc = compiler(scratch, "echo 'k.cu(1): error: expected a ;' >&2\nexit 2\n");
  const Outcome outcome =
      microscale({"ptx", "run", scratch.write("k.cu", "oops")}, "", {{"MICROSCALE_NVCC", nvcc}});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("gave exit code 2"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("expected a ;"), std::string::npos) << outcome.err;
}

TEST(PtxSource, without_a_compiler_it_says_what_to_do) {
  const Scratch scratch;
  const Outcome outcome = microscale({"ptx", "explain", scratch.write("k.cu", "")}, "",
                                     {{"MICROSCALE_NVCC", "/nowhere/nvcc"}});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("no nvcc was found to compile it"), std::string::npos) << outcome.err;
}

TEST(PtxSource, a_cubin_is_named_for_what_it_is) {
  const Scratch scratch;
  const Outcome outcome = microscale({"ptx", "run",
                                      scratch.write("k.cubin",
                                                    "\x7f"
                                                    "ELF and more")});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("it is a cubin"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace microscale::testing
