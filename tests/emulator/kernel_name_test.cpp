#include "emulator/kernel_name.hpp"

#include <gtest/gtest.h>

#include "microscale/error.hpp"

namespace microscale::emulator {
namespace {

TEST(KernelName, reads_the_types_of_parameters_from_a_mangled_name) {
  const auto types = parameter_types("_Z5scalePKfPfif6float4");  // scale(float const*, float*, ...)
  ASSERT_TRUE(types);
  ASSERT_EQ(types->size(), 5u);
  EXPECT_EQ((*types)[0].text, "float const*");
  EXPECT_TRUE((*types)[0].pointer);
  EXPECT_EQ((*types)[0].number->word, "f32");
  EXPECT_FALSE((*types)[2].pointer);
  EXPECT_EQ((*types)[2].number->word, "s32");
  EXPECT_EQ((*types)[4].number->lanes, 4);
  EXPECT_EQ((*types)[4].number->align(), 16);
}

TEST(KernelName, reads_templates_and_structs) {
  const auto types =
      parameter_types("_Z3runILi4ELb1EEvP4ArgsS0_");  // void run<4, true>(Args*, Args)
  ASSERT_TRUE(types);
  ASSERT_EQ(types->size(), 2u);
  EXPECT_TRUE((*types)[0].pointer);
  EXPECT_FALSE((*types)[0].number);
  EXPECT_EQ((*types)[1].text, "Args");
  EXPECT_TRUE(parameter_types("_Z4nonev")->empty());
  EXPECT_FALSE(parameter_types("plain"));
  EXPECT_FALSE(parameter_types(""));
}

TEST(KernelName, knows_numbers_of_cuda) {
  EXPECT_EQ(number_type("unsigned long const")->word, "u64");
  EXPECT_EQ(number_type("__nv_bfloat16")->word, "bf16");
  EXPECT_EQ(number_type("__half2")->lanes, 2);
  EXPECT_EQ(number_type("dim3")->lanes, 3);
  EXPECT_EQ(number_type("float3")->align(), 4);
  EXPECT_FALSE(number_type("float5"));
  EXPECT_FALSE(number_type("Args"));
  EXPECT_FALSE(number_type(""));
}

TEST(KernelName, names_variables_without_their_scope) {
  EXPECT_EQ(variable_name("_ZZ4racePfE4tile"), "tile");
  EXPECT_EQ(variable_name("smem"), "smem");
  EXPECT_EQ(bare_name("levels::tiled<32, 1024>(levels::Args)"), "tiled");
  EXPECT_EQ(readable_name("_Z4copyv"), "copy()");
}

std::string refusal(const std::vector<std::string>& kernels, const std::string& word) {
  try {
    return kernel_of(kernels, word, "--kernel");
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(KernelName, chooses_a_kernel_by_its_name_or_a_part_of_it) {
  const std::vector<std::string> kernels = {"_Z11copy_sharedv", "_Z4copyv", "k"};
  EXPECT_EQ(refusal(kernels, "copy"), "_Z4copyv");
  EXPECT_EQ(refusal(kernels, "shared"), "_Z11copy_sharedv");
  EXPECT_EQ(refusal(kernels, "k"), "k");
  EXPECT_EQ(refusal({"k"}, ""), "k");
  EXPECT_NE(refusal(kernels, "cop").find("several kernels are called"), std::string::npos);
  EXPECT_NE(refusal(kernels, "").find("the file has 3 kernels"), std::string::npos);
  EXPECT_NE(refusal({}, "k").find("the file has no kernel"), std::string::npos);
}

TEST(KernelName, chooses_a_variable_by_its_name_in_any_scope) {
  const std::vector<std::string> variables = {"_ZN3one4coefE", "_ZN3two4coefE", "counter"};
  EXPECT_EQ(variable_of(variables, "counter", "--symbol"), "counter");
  EXPECT_EQ(variable_of({"_ZN3one4coefE"}, "coef", "--symbol"), "_ZN3one4coefE");
  EXPECT_THROW(variable_of(variables, "coef", "--symbol"), Error);
  EXPECT_THROW(variable_of({}, "coef", "--symbol"), Error);
}

}  // namespace
}  // namespace microscale::emulator
