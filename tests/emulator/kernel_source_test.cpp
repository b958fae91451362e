#include "emulator/kernel_source.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator {
namespace {

using Names = std::vector<std::string>;

TEST(KernelSource, gives_the_names_of_parameters) {
  const std::string source =
      "// void scale(int no)\n/* __global__ void scale(int not); */\n"
      "template <class T, int N>\n__global__ void __launch_bounds__(256)\nscale_all(T* y) {}\n"
      "__global__ void scale(const float *__restrict__ x, float (&y)[4], std::pair<int, int> p,\n"
      "                      int n = (3, 4)) { scale_all(x); }\n";
  EXPECT_EQ(parameter_names(source, "scale_all"), Names({"y"}));
  EXPECT_EQ(parameter_names(source, "scale"), Names({"x", "y", "p", "n"}));
  EXPECT_EQ(parameter_names(source, "all"), Names());
}

TEST(KernelSource, gives_nothing_where_a_name_is_missing_or_the_text_is_cut) {
  EXPECT_EQ(parameter_names("__global__ void k(int);", "k"), Names());
  EXPECT_EQ(parameter_names("__global__ void k(int n", "k"), Names());
  EXPECT_EQ(parameter_names("__global__ void k", "k"), Names());
  EXPECT_EQ(parameter_names("__global__ k", ""), Names());
  EXPECT_EQ(parameter_names("", "k"), Names());
  EXPECT_EQ(parameter_names("__global__ void k() {}", "k"), Names());
}

}  // namespace
}  // namespace microscale::emulator
