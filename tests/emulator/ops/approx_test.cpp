// Every spelling of the approximate instructions against what an H200 made of the same operands
// (golden/h200_approx.json): half a million FP32 patterns, and all patterns of 16 bits.
#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "emulator/run_ptx.hpp"
#include "support/paths.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;
using u32 = std::uint32_t;

nlohmann::json golden() {
  std::ifstream file(microscale::testing::test_data() + "/golden/h200_approx.json");
  return nlohmann::json::parse(file);
}

u32 from_hex(const nlohmann::json& text) {
  return static_cast<u32>(std::stoul(text.get<std::string>(), nullptr, 16));
}

/// `op` of every word, which is a multiple of 256 long.
std::vector<u32> each(const std::string& op, const std::vector<u32>& words) {
  const std::string index =
      "ld.param.u64 %rd30, [p]; mov.u32 %r50, %tid.x; mov.u32 %r51, %ctaid.x; "
      "mad.lo.u32 %r50, %r51, 256, %r50; mul.wide.u32 %rd31, %r50, 4; add.s64 %rd32, %rd30, "
      "%rd31;\n";
  const bool pair = op.ends_with("x2");
  const std::string code =
      pair ? "ld.global.u32 %r1, [%rd32]; " + op + " %r2, %r1; st.global.u32 [%rd32], %r2;"
           : "ld.global.f32 %f1, [%rd32]; " + op + " %f2, %f1; st.global.f32 [%rd32], %f2;";
  const Ran ran =
      launch_words(entry(index + code), words, shaped(static_cast<u32>(words.size() / 256), 256));
  EXPECT_EQ(ran.findings(), "") << op;
  return ran.words;
}

/// The operands of the golden digests: random patterns, every other one with an exponent from -30
/// to 14.
std::vector<u32> samples() {
  std::vector<u32> words(1 << 19);
  std::uint64_t state = 88172645463325252;
  for (u32& word : words) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    word = static_cast<u32>(state >> 16);
  }
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const u32 exponent = 97 + (words[i] >> 3) % 45;
    words[i] = (words[i] & 0x80000000u) | exponent << 23 | (words[i + 1] & 0x7fffffu);
  }
  return words;
}

std::string digest(const std::vector<u32>& words) {
  return fmt::format("{:016x}", XXH3_64bits(words.data(), words.size() * sizeof(u32)));
}

TEST(ApproximateInstructions, make_what_an_h200_makes_of_some_operands) {
  const nlohmann::json examples = golden().at("examples");
  EXPECT_EQ(examples.size(), 19u);
  for (const auto& [op, pairs] : examples.items()) {
    std::vector<u32> words(256);
    for (std::size_t i = 0; i < pairs.size(); ++i) words[i] = from_hex(pairs[i][0]);
    const std::vector<u32> results = each(op, words);
    for (std::size_t i = 0; i < pairs.size(); ++i)
      EXPECT_EQ(results[i], from_hex(pairs[i][1])) << op << " of " << pairs[i][0];
  }
}

TEST(ApproximateInstructions, make_what_an_h200_makes_of_half_a_million_operands) {
  const std::vector<u32> words = samples();
  const nlohmann::json expected = golden().at("samples");
  EXPECT_EQ(expected.size(), 15u);
  for (const auto& [op, value] : expected.items())
    EXPECT_EQ(digest(each(op, words)), value.get<std::string>()) << op;
}

TEST(ApproximateInstructions, make_what_an_h200_makes_of_all_pairs_of_16_bits) {
  std::vector<u32> words(65536);
  for (u32 i = 0; i < 65536; ++i) words[i] = i | (i ^ 0x5555) << 16;
  const nlohmann::json expected = golden().at("all");
  EXPECT_EQ(expected.size(), 4u);
  for (const auto& [op, value] : expected.items())
    EXPECT_EQ(digest(each(op, words)), value.get<std::string>()) << op;
}

TEST(ApproximateInstructions, of_one_16_bit_operand_are_those_of_pairs) {
  for (const u32 h : {0x3c01u, 0xc123u, 0x0001u, 0x7c00u, 0xfe01u}) {
    EXPECT_EQ(word("ex2.approx.f16 %rs0, %rs1; cvt.u32.u16 %r0, %rs0;", h),
              word("ex2.approx.f16x2 %r0, %r1;", h) & 0xffff);
    EXPECT_EQ(word("tanh.approx.bf16 %rs0, %rs1; cvt.u32.u16 %r0, %rs0;", h),
              word("tanh.approx.bf16x2 %r0, %r1;", h) & 0xffff);
  }
}

float divided(const std::string& op, float a, float b) {
  return std::bit_cast<float>(
      word(op + " %f0, %f1, %f2; mov.b32 %r0, %f0;", std::bit_cast<u32>(a), std::bit_cast<u32>(b)));
}

TEST(ApproximateDivision, multiplies_by_the_reciprocal) {
  for (const float b : {3.0f, -7.0f, 0x1.234566p-9f, 0x1.fffffep40f}) {
    const float reciprocal = std::bit_cast<float>(
        word("rcp.approx.ftz.f32 %f0, %f1; mov.b32 %r0, %f0;", std::bit_cast<u32>(b)));
    for (const char* op :
         {"div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "div.full.ftz.f32"})
      EXPECT_EQ(divided(op, 5.0f, b), 5.0f * reciprocal) << op << " by " << b;
  }
}

TEST(ApproximateDivision, by_large_numbers_is_zero_unless_full) {
  const float large = 0x1p127f;
  EXPECT_EQ(divided("div.approx.f32", large, large), 0.0f);
  EXPECT_EQ(divided("div.approx.ftz.f32", large, large), 0.0f);
  EXPECT_EQ(divided("div.full.f32", large, large), 1.0f);
  EXPECT_EQ(divided("div.full.ftz.f32", large, large), 1.0f);
}

TEST(ApproximateDivision, by_subnormal_numbers_divides_by_zero_with_ftz) {
  const float tiny = 0x1p-130f, infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(divided("div.approx.f32", 0x1p-128f, tiny), 4.0f);
  EXPECT_EQ(divided("div.full.f32", 0x1p-128f, tiny), 4.0f);
  EXPECT_EQ(divided("div.approx.ftz.f32", 1.0f, -tiny), -infinity);
  EXPECT_EQ(divided("div.full.ftz.f32", 1.0f, tiny), infinity);
  EXPECT_TRUE(std::isnan(divided("div.full.ftz.f32", tiny, tiny)));
}

TEST(ApproximateInstructions, of_fp64_keep_the_high_half_with_ftz) {
  const std::uint64_t three = std::bit_cast<std::uint64_t>(3.0);
  const std::uint64_t third = std::bit_cast<std::uint64_t>(1.0 / 3.0);
  EXPECT_EQ(word64("rcp.approx.ftz.f64 %fd0, %fd1; mov.b64 %rd0, %fd0;", three), third >> 32 << 32);
  EXPECT_EQ(word64("rsqrt.approx.f64 %fd0, %fd1; mov.b64 %rd0, %fd0;", three),
            std::bit_cast<std::uint64_t>(1.0 / std::sqrt(3.0)));
}

}  // namespace
}  // namespace microscale::emulator
