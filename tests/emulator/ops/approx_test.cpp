#include <bit>
#include <cmath>

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

float real(const std::string& op, float a) {
  return std::bit_cast<float>(word(op + " %f0, %f1; mov.b32 %r0, %f0;", std::bit_cast<std::uint32_t>(a)));
}

TEST(ApproximateInstructions, are_the_exact_values_rounded) {
  EXPECT_EQ(real("ex2.approx.ftz.f32", 3.0f), 8.0f);
  EXPECT_EQ(real("lg2.approx.f32", 8.0f), 3.0f);
  EXPECT_EQ(real("rsqrt.approx.f32", 4.0f), 0.5f);
  EXPECT_EQ(real("rcp.approx.f32", 3.0f), 1.0f / 3.0f);
  EXPECT_EQ(real("sqrt.approx.f32", 2.0f), std::sqrt(2.0f));
  EXPECT_EQ(real("tanh.approx.f32", 0.5f), static_cast<float>(std::tanh(0.5)));
  EXPECT_EQ(real("sin.approx.f32", 1.0f), static_cast<float>(std::sin(1.0)));
  EXPECT_EQ(real("ex2.approx.ftz.f32", -140.0f), 0.0f);
}

}  // namespace
}  // namespace microscale::emulator
