#include "sass/cuda_program.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>

#include "microscale/error.hpp"

namespace microscale::sass {
namespace {

TEST(CudaProgram, what_the_environment_names_goes_before_the_path) {
  setenv("MICROSCALE_TEST_PROGRAM", "/bin/sh", 1);
  EXPECT_EQ(find_cuda_program("no such program", "MICROSCALE_TEST_PROGRAM"), "/bin/sh");
  setenv("MICROSCALE_TEST_PROGRAM", "/nowhere/sh", 1);
  EXPECT_EQ(find_cuda_program("sh", "MICROSCALE_TEST_PROGRAM"), "");
  unsetenv("MICROSCALE_TEST_PROGRAM");
  EXPECT_EQ(find_cuda_program("sh", "MICROSCALE_TEST_PROGRAM").filename(), "sh");
  EXPECT_EQ(find_cuda_program("no such program", "MICROSCALE_TEST_PROGRAM"), "");
}

TEST(CudaProgram, runs_with_its_words_and_keeps_what_it_writes) {
  const TemporaryFile out("out"), err("errors");
  EXPECT_EQ(run_program("/bin/sh", {"-c", "echo \"$0 b\"; echo wrong >&2; exit 3", "a"}, out, err),
            3);
  EXPECT_EQ(out.text(), "a b\n");
  EXPECT_EQ(err.text(), "wrong\n");
  EXPECT_EQ(run_program("/bin/sh", {"-c", "kill -9 $$"}, out, err), 137);
  EXPECT_THROW(run_program("/nowhere/program", {}, out, err), Error);
}

TEST(TemporaryFile, is_gone_with_the_object) {
  std::string path;
  {
    const TemporaryFile file("test");
    path = file.path();
    const std::string text = "text";
    file.write({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    EXPECT_EQ(file.text(), "text");
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace microscale::sass
