// .npy files as ptx run reads and writes them.
#include <gtest/gtest.h>

#include <cstring>

#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

std::string npy(const std::string& header, const std::string& data) {
  std::string text = "\x93NUMPY";
  text += '\x01';
  text += '\0';
  text += static_cast<char>(header.size());
  text += '\0';
  return text + header + data;
}

Outcome run_with(const Scratch& scratch, const std::string& file) {
  return microscale({"ptx", "run", scratch.write("k.ptx", affine_ptx), "--block", "32", "--arg",
                     file, "--arg", "f32:2", "--arg", "y=f32[32]", "--out",
                     "y=" + scratch.file("y.npy")});
}

TEST(Npy, goes_in_and_out_as_numpy_lays_it_out) {
  const Scratch scratch;
  std::string data(128, '\0');
  for (int i = 0; i < 32; ++i) {
    const float value = static_cast<float>(10 * i);
    std::memcpy(data.data() + 4 * i, &value, 4);
  }
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 8), }\n";
  const Outcome outcome = run_with(scratch, scratch.write("x.npy", npy(header, data)));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::ifstream file(scratch.file("y.npy"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_EQ(text.size() % 64, 0u);  // header and 128 bytes of data: numpy aligns the data
  EXPECT_EQ(text.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
  EXPECT_NE(text.find("{'descr': '<f4', 'fortran_order': False, 'shape': (32,), }"), text.npos)
      << text;
  for (int i = 0; i < 32; ++i) {
    float value = 0;
    std::memcpy(&value, text.data() + text.size() - 128 + 4 * i, 4);
    EXPECT_EQ(value, 21.0f * static_cast<float>(i));
  }
}

TEST(Npy, says_what_is_wrong_with_a_file) {
  const Scratch scratch;
  const std::string data(128, '\0');
  const std::pair<std::string, std::string> files[] = {
      {"PK not numpy at all", "no .npy file"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (4, 8), }\n", data),
       "columns before rows"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (32,), }\n", data), "big-endian"},
      {npy("{'descr': '<c8', 'fortran_order': False, 'shape': (16,), }\n", data),
       "which kernels have not"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (33,), }\n", data),
       "128 bytes of elements where its shape takes 132"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }\n", data),
       "absurd shape"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 8), }\n", data),
       "a shape of other things than numbers"},
      {std::string("\x93NUMPY\x01\0\x7f\x7f{'descr'", 18), "cut short"}};
  for (const auto& [text, says] : files) {
    const Outcome outcome = run_with(scratch, scratch.write("x.npy", text));
    EXPECT_EQ(outcome.code, 3) << says;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(run_with(scratch, scratch.file("absent.npy")).code, 4);
  std::filesystem::create_directory(scratch.file("folder.npy"));
  const Outcome folder = run_with(scratch, scratch.file("folder.npy"));
  EXPECT_EQ(folder.code, 4);
  EXPECT_NE(folder.err.find("folder.npy': it is a folder"), std::string::npos) << folder.err;
}

TEST(Npy, that_cannot_be_written_leaves_the_old_one) {
  const Scratch scratch;
  scratch.write("k.ptx", affine_ptx);
  const std::string old = scratch.write("y.npy", "precious");
  const Outcome limited = bash(
      "cd '" + scratch.file("") +
      "'; ulimit -f 1; \"$microscale\" ptx run k.ptx --block 1024 --arg f32[1024]:iota --arg f32:2 "
      "--arg y=f32[1024] --out y=y.npy");
  EXPECT_NE(limited.code, 0);
  std::ifstream file(old);
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>(file), {}}), "precious");
}

}  // namespace
}  // namespace microscale::testing
