// --arg: values, generators, and the sentences for those that are wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tools/ptx_files.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

/// y of affine with x made by `x`, a as given.
std::vector<float> computed(const std::string& x, const std::string& a) {
  const Scratch scratch;
  const Outcome outcome = microscale({"ptx", "run", scratch.write("k.ptx", affine_ptx), "--grid",
                                      "8", "--block", "128", "--arg", x, "--arg", a, "--arg",
                                      "y=f32[1024]", "--out", "2=" + scratch.file("y.npy")});
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  std::ifstream file(scratch.file("y.npy"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> values(1024);
  if (text.size() >= 4096) std::memcpy(values.data(), text.data() + text.size() - 4096, 4096);
  return values;
}

TEST(KernelArguments, generate_what_they_say) {
  EXPECT_EQ(computed("f32[1024]:zeros", "f32:3")[1000], 1000.0f);
  EXPECT_EQ(computed("f32[1024]:ones", "f32:-0.5")[7], 6.5f);
  EXPECT_EQ(computed("x=f32[32,32]:iota", "f32:0.25")[1000], 1250.0f);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; const float value : computed("f32[1024]:normal,5", "f32:1")) {
    const double x = value - static_cast<double>(i++);
    sum += x;
    squares += x * x;
  }
  EXPECT_LT(std::abs(sum / 1024), 0.15);
  EXPECT_NEAR(squares / 1024, 1, 0.2);
  EXPECT_EQ(computed("f32[1024]:uniform,3", "f32:1"), computed("f32[1024]:uniform,3", "f32:1"));
  EXPECT_NE(computed("f32[1024]:uniform,3", "f32:1"), computed("f32[1024]:uniform,4", "f32:1"));
}

TEST(KernelArguments, that_are_wrong_are_told_what_there_is) {
  const Scratch scratch;
  const std::string path = scratch.write("k.ptx", affine_ptx);
  const std::pair<std::string, std::string> words[] = {{"f33:1", "neither a type"},
                                                       {"f32:1.5x", "'1.5x' is no number"},
                                                       {"u32:1.5", "is no whole number"},
                                                       {"f32[12", "no ] behind the shape"},
                                                       {"f32[a]", "is no shape"},
                                                       {"f32[4]:nromal", "did you mean normal?"},
                                                       {"f32[999999999999]", "more elements"}};
  for (const auto& [word, says] : words) {
    const Outcome outcome = microscale({"ptx", "run", path, "--arg", word});
    EXPECT_EQ(outcome.code, 2) << word;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace microscale::testing
