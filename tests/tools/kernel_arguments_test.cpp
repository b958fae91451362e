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

TEST(KernelArguments, take_all_that_their_type_holds) {
  const Scratch scratch;
  const std::string head = ".version 8.0\n.target sm_90a\n.address_size 64\n";
  const auto run = [&](const std::string& type, const std::string& word) {
    const std::string path =
        scratch.write("k.ptx", head + ".visible .entry k(.param ." + type + " x) {\n  ret;\n}\n");
    return microscale({"ptx", "run", path, "--arg", word}).code;
  };
  for (const char* word : {"u8:255", "u8:0", "s8:-128", "s8:127", "s8:0xff", "s8:-0"})
    EXPECT_EQ(run("b8", word), 0) << word;
  for (const char* word : {"u64:18446744073709551615", "s64:-9223372036854775808"})
    EXPECT_EQ(run("b64", word), 0) << word;
  for (const char* word : {"f32:inf", "f32:-inf", "f32:nan", "f32:3.4e38", "f32:0xff800000"})
    EXPECT_EQ(run("b32", word), 0) << word;
}

TEST(KernelArguments, that_are_wrong_are_told_what_there_is) {
  const Scratch scratch;
  const std::string path = scratch.write("k.ptx", affine_ptx);
  const std::pair<std::string, std::string> words[] = {{"f33:1", "neither a type"},
                                                       {"f32:1.5x", "'1.5x' is no number"},
                                                       {"u32:1.5", "is no whole number"},
                                                       {"u8:300", "300 is beyond what u8 holds"},
                                                       {"u32:-1", "-1 is beyond what u32 holds"},
                                                       {"s8:128", "128 is beyond what s8 holds"},
                                                       {"s8:-129", "-129 is beyond what s8"},
                                                       {"s8:0x100", "0x100 is beyond what s8"},
                                                       {"f16:0x10000", "beyond what f16 holds"},
                                                       {"f16:70000", "beyond what f16 holds"},
                                                       {"f32:1e39", "beyond what f32 holds"},
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
