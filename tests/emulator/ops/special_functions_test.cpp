// The unit's functions against every low bit that an H200 computed for whole powers of two, against
// the functions they approximate, and at the ends of their ranges.
#include "emulator/ops/special_functions.hpp"
#include "support/paths.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;

constexpr u32 nan_bits = 0x7fffffff, infinity = 0x7f800000, minus = 0x80000000, one = 0x3f800000;

u32 sine(u32 x) { return special_sin(special_revolutions(x)); }
u32 cosine(u32 x) { return special_cos(special_revolutions(x)); }

struct Function {
  const char* name;  // in the golden file
  u32 (*unit)(u32);
  double (*exact)(double);
  double low, high;  // where `error` is promised
  bool relative;
  double error;
};

void PrintTo(const Function& function, std::ostream* out) { *out << function.name; }

const Function functions[] = {
    {"ex2.approx.ftz.f32", special_ex2, std::exp2, -8, 8, true, 0x1p-22},
    {"lg2.approx.ftz.f32", special_lg2, std::log2, 0.5, 2, false, 0x1p-22},
    {"rcp.approx.ftz.f32", special_rcp, [](double x) { return 1 / x; }, 1, 4, true, 0x1p-23},
    {"rsqrt.approx.ftz.f32", special_rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1, 8, true,
     0x1p-22},
    {"sqrt.approx.ftz.f32", special_sqrt, [](double x) { return std::sqrt(x); }, 1, 8, true,
     0x1p-23},
    {"sin.approx.ftz.f32", sine, [](double x) { return std::sin(x); }, -3.14, 3.14, false, 0x1p-20},
    {"cos.approx.ftz.f32", cosine, [](double x) { return std::cos(x); }, -3.14, 3.14, false,
     0x1p-20},
    {"tanh.approx.f32", special_tanh, [](double x) { return std::tanh(x); }, -9, 9, true, 0x1p-16},
};

class SpecialFunction : public ::testing::TestWithParam<Function> {};

TEST_P(SpecialFunction, has_the_low_bits_of_an_h200_for_every_mantissa) {
  std::ifstream file(microscale::testing::test_data() + "/golden/h200_approx.json");
  const nlohmann::json golden = nlohmann::json::parse(file).at("low_bits").at(GetParam().name);
  ASSERT_FALSE(golden.empty());
  std::vector<std::uint8_t> pairs(1 << 22);
  for (const auto& [first, digest] : golden.items()) {
    u32 x = static_cast<u32>(std::stoul(first, nullptr, 16));
    for (std::uint8_t& pair : pairs) {
      const u32 even = GetParam().unit(x++), odd = GetParam().unit(x++);
      pair = static_cast<std::uint8_t>((even & 15) | (odd & 15) << 4);
    }
    EXPECT_EQ(fmt::format("{:016x}", XXH3_64bits(pairs.data(), pairs.size())),
              digest.get<std::string>())
        << first;
  }
}

TEST_P(SpecialFunction, is_as_near_as_promised) {
  const Function& f = GetParam();
  for (int i = 0; i < 100'000; ++i) {
    const auto x = static_cast<float>(f.low + (f.high - f.low) * (i + 0.5) / 100'000);
    const double y = std::bit_cast<float>(f.unit(std::bit_cast<u32>(x)));
    const double exact = f.exact(x);
    ASSERT_LE(std::fabs(y - exact), f.error * (f.relative ? std::fabs(exact) : 1.0)) << x;
  }
}

TEST_P(SpecialFunction, makes_one_nan_of_any) {
  for (const u32 nan : {0x7f800001u, 0x7fc00000u, 0xffffffffu})
    EXPECT_EQ(GetParam().unit(nan), nan_bits);
}

INSTANTIATE_TEST_SUITE_P(H200, SpecialFunction, ::testing::ValuesIn(functions),
                         [](const auto& info) {
                           const std::string name = info.param.name;
                           return name.substr(0, name.find('.'));
                         });

TEST(SpecialFunctions, keep_to_their_ends) {
  const u32 subnormal = 0x00400000;
  EXPECT_EQ(special_ex2(infinity), infinity);
  EXPECT_EQ(special_ex2(minus | infinity), 0u);
  EXPECT_EQ(special_ex2(minus | subnormal), one);
  EXPECT_EQ(special_ex2(0x43000000), infinity);     // 128
  EXPECT_EQ(special_ex2(0x42fe0000), 0x7f000000u);  // 127
  EXPECT_EQ(special_ex2(0xc2fc0000), 0x00800000u);  // -126
  EXPECT_EQ(special_ex2(0xc2fc0001), 0u);           // would be subnormal
  EXPECT_EQ(special_ex2(0xc3800000), 0u);
  EXPECT_EQ(special_lg2(0), minus | infinity);
  EXPECT_EQ(special_lg2(minus | subnormal), minus | infinity);
  EXPECT_EQ(special_lg2(minus | one), nan_bits);
  EXPECT_EQ(special_lg2(one), 0u);
  EXPECT_EQ(special_lg2(infinity), infinity);
  EXPECT_EQ(special_rcp(minus), minus | infinity);
  EXPECT_EQ(special_rcp(subnormal), infinity);
  EXPECT_EQ(special_rcp(minus | infinity), minus);
  EXPECT_EQ(special_rcp(0x7e800001), 0u);  // would be subnormal
  EXPECT_EQ(special_rsqrt(minus), minus | infinity);
  EXPECT_EQ(special_rsqrt(minus | one), nan_bits);
  EXPECT_EQ(special_rsqrt(infinity), 0u);
  EXPECT_EQ(special_sqrt(minus | subnormal), minus);
  EXPECT_EQ(special_sqrt(minus | one), nan_bits);
  EXPECT_EQ(special_sqrt(infinity), infinity);
  EXPECT_EQ(special_sin(infinity), nan_bits);
  EXPECT_EQ(special_sin(minus), minus);
  EXPECT_EQ(special_cos(minus | infinity), nan_bits);
  EXPECT_EQ(special_cos(0), 0x3f800000u);
  EXPECT_EQ(special_tanh(minus | 1), minus | 1);
  EXPECT_EQ(special_tanh(minus | infinity), minus | one);
  EXPECT_EQ(special_tanh(0x41000000), one);  // 8
}

TEST(SpecialFunctions, take_quarter_turns) {
  EXPECT_EQ(special_sin(0x3e800000), one);          // a quarter
  EXPECT_EQ(special_cos(0x3e800000), minus);        // the zero of the falling half
  EXPECT_EQ(special_sin(0x3f400000), minus | one);  // three
  EXPECT_EQ(special_cos(0x3f000000), minus | one);  // two
}

}  // namespace
}  // namespace microscale::emulator
