// explain: the articles' numbers step by step, and agreement with quantize() for everything it
// shows.
#include <gtest/gtest.h>

#include <cmath>

#include "microscale/quantize.hpp"
#include "tools/explained.hpp"

namespace microscale::testing {
namespace {

TEST(Explain, gives_the_articles_scale_bytes) {
  EXPECT_EQ(scale_byte({"0.945", "--scale-rule", "floor"}), 124);
  EXPECT_EQ(scale_byte({"25", "--scale-rule", "floor"}), 129);
  EXPECT_EQ(scale_byte({"24", "--scale-rule", "floor"}), 129);
  EXPECT_EQ(scale_byte({"block", "12", "10", "3", "-7", "--scale-rule", "amax_ceil"}), 131);
}

TEST(Explain, prints_article_001s_block_step_by_step) {
  EXPECT_EQ(
      microscale({"explain", "block", "12", "10", "3", "-7", "--scale-rule", "amax_ceil"}).out,
      R"(mxfp4: 32 elements of 4 bits, one E8M0 scale
   4 given, 28 zeros added to fill it

1. The largest magnitude
   amax = |element 0| = 12, in FP32 0x41400000:
   sign 0 | exponent 10000010 | mantissa 10000000000000000000000
   130 - 127 = 3, so amax = 1.5 x 2^3.

2. The scale, by rule amax_ceil
   exponent of amax                3
   carry                         + 1
   bias of E8M0                + 127
   byte                        = 131
   Carry 1: the mantissa is not 0, so it rounds up.
   scale byte 131 = 0x83 = 10000011: 2^(131 - 127) = 2^4 = 16

3. The elements, S EE M each, rounding nearest_even
   scaled = value / 16 (x 0.0625, exactly)
#  value   scaled  below|mid|above  code    restored  error  note
-------------------------------------------------------------------------
0     12     0.75  0.5|0.75|1       0 01 0        16      4  tie: to even
1     10    0.625  0.5|0.75|1       0 00 1         8     -2
2      3   0.1875  0|0.25|0.5       0 00 0         0     -3  becomes 0
3     -7  -0.4375  0|0.25|0.5       1 00 1        -8     -1
   Elements 4 to 31: zero, not given.

4. The bytes, two codes in each, the even element in the low half
   elements 1 and 0: 0001 0010 = 0x12
   codes 12 90 00 00 00 00 00 00 00 00 00 00 00 00 00 00
   scale 83

5. What it cost
   MSE 7.5, relative MSE 9.934 %, SQNR 10.0 dB, largest error 4
)");
}

TEST(Explain, sends_the_seven_midpoints_to_the_even_code) {
  const std::vector<std::string> midpoints = {"0.25", "0.75", "1.25", "1.75",
                                              "2.5",  "3.5",  "5",    "6"};
  std::vector<std::string> arguments = midpoints;
  arguments.insert(arguments.end(), {"--scale-rule", "floor"});
  const Json json = explained(arguments);
  const std::vector<int> codes = {0, 2, 2, 4, 4, 6, 6, 7};
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(json["elements"][i]["code"], codes[i]);
    EXPECT_EQ(json["elements"][i]["midpoint"], json["elements"][i]["scaled"]);
    EXPECT_EQ(json["elements"][i]["note"], "tie: to even");
  }
  arguments.insert(arguments.end(), {"--rounding", "nearest_away"});
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_EQ(explained(arguments)["elements"][i]["code"], static_cast<int>(i) + 1);
}

TEST(Explain, notes_saturation_flushing_and_the_carry) {
  const Json floor = explained({"25", "1", "-0.1", "--scale-rule", "floor"});
  EXPECT_EQ(floor["elements"][0]["note"], "saturates");
  EXPECT_EQ(floor["elements"][2]["note"], "becomes 0");
  EXPECT_EQ(floor["elements"][2]["bits"], "1 00 0");
  EXPECT_EQ(floor["scale"]["exponent"]["carry"], 0);
  EXPECT_EQ(explained({"25", "--scale-rule", "rceil"})["scale"]["exponent"]["carry"], 1);
  EXPECT_EQ(explained({"24", "--scale-rule", "rceil"})["scale"]["exponent"]["carry"], 0);
  EXPECT_NE(microscale({"explain", "7", "--scale-rule", "even"})
                .out.find("mantissa 0x600000 + 0x200000 = 0x800000, past its 23 bits"),
            std::string::npos);
  EXPECT_NE(microscale({"explain", "7", "--scale-rule", "even_down"})
                .out.find("= 0x7FFFFF, within its 23 bits"),
            std::string::npos);
}

TEST(Explain, says_where_a_byte_is_clamped) {
  const Json json = explained({"1e-40", "--scale-rule", "floor"});
  EXPECT_EQ(json["scale"]["byte"], 0);
  EXPECT_EQ(json["scale"]["exponent"]["byte_before_clamping"], -8);
  EXPECT_NE(
      microscale({"explain", "1e-40", "--scale-rule", "floor"}).out.find("bytes 0 to 254 only"),
      std::string::npos);
}

TEST(Explain, shows_what_nan_and_infinity_do) {
  const Json nan = explained({"1", "nan", "-2"});
  EXPECT_EQ(nan["scale"]["byte"], 255);
  EXPECT_TRUE(nan["elements"][0]["restored"].is_null());
  EXPECT_EQ(scale_byte({"1", "-inf"}), 254);
  EXPECT_EQ(scale_byte({"0", "-0"}), 0);
  EXPECT_EQ(explained({"0", "-0"})["elements"][1]["bits"], "1 00 0");
}

TEST(Explain, shows_what_the_nvfp4_search_tried) {
  const Json json =
      explained({"12", "10", "3", "-7", "--format", "nvfp4", "--global-scale", "0.025"});
  EXPECT_NEAR(json["global_scale"]["value"].get<double>(), 0.025, 1e-9);
  EXPECT_EQ(json["global_scale"]["nearest"]["byte"], 0x6A);  // 12 / 6 / 0.025 = 80
  EXPECT_EQ(json["scale"]["candidates"].size(), 10u);
  EXPECT_EQ(
      explained({"12", "--format", "nvfp4", "--scale-rule", "full"})["scale"]["candidates"].size(),
      126u);
  std::vector<std::string> four = {"12", "--format", "nvfp4", "--scale-rule", "four_over_six"};
  EXPECT_EQ(explained(four)["scale"]["candidates"].size(), 1u);  // 448 for both
  four.insert(four.end(), {"--global-scale", "0.025"});
  EXPECT_EQ(explained(four)["scale"]["candidates"].size(), 2u);
  EXPECT_FALSE(explained({"12", "--format", "nvfp4", "--scale-rule", "nearest"})["scale"].contains(
      "candidates"));
}

// Pseudo-random full-range values, as text that reads back equal.
std::vector<float> values_of(int count, std::uint32_t state) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back((static_cast<float>(state >> 8) * 0x1p-23f - 1.0f) *
                     std::exp2(static_cast<float>(i % 5 - 2)));
  }
  return values;
}

void expect_equal_to_quantize(Format format, const Numerics& numerics,
                              std::vector<std::string> options) {
  const FormatInfo& facts = info(format);
  const std::vector<float> values = values_of(facts.block, 7);
  std::vector<std::string> arguments;
  for (const float value : values) {
    char text[64];
    std::snprintf(text, sizeof text, "%a", static_cast<double>(value));
    arguments.push_back(text);
  }
  options.insert(options.end(), {"--format", std::string(facts.name)});
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Json json = explained(arguments);
  QuantizeOptions call;
  call.input = {values.data(), DType::f32, 1, facts.block, facts.block};
  call.format = format;
  call.numerics = numerics;
  const BlockTensor tensor = quantize(call);
  std::string what(facts.name);
  for (const std::string& option : options) what += " " + option;
  EXPECT_EQ(json["scale"]["byte"], tensor.scales()[0]) << what;
  EXPECT_EQ(json["bytes"].get<std::vector<std::uint8_t>>(),
            std::vector<std::uint8_t>(tensor.codes().begin(), tensor.codes().end()))
      << what;
  std::vector<float> restored(values.size());
  dequantize(tensor.view(), {restored.data(), DType::f32, 1, facts.block, facts.block});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Json& element = json["elements"][i];
    EXPECT_EQ(element["restored"].get<float>(), restored[i]) << what << " element " << i;
    EXPECT_EQ(element["value"].get<float>(), values[i]);
    const double magnitude = std::fabs(element["scaled"].get<double>());
    EXPECT_LE(element["below"]["value"].get<double>(), magnitude) << what;
    if (!element["midpoint"].is_null()) {
      EXPECT_GT(element["above"]["value"].get<double>(), magnitude);
    }
  }
  if (json["scale"].contains("candidates")) {
    int chosen = 0;
    double least = INFINITY, of_chosen = INFINITY;
    for (const Json& candidate : json["scale"]["candidates"]) {
      least = std::min(least, candidate["error"].get<double>());
      chosen += candidate["chosen"] == true;
      if (candidate["chosen"] == true) of_chosen = candidate["error"];
    }
    EXPECT_EQ(chosen, 1) << what;
    EXPECT_NEAR(of_chosen, least, 1e-6 * least) << what;
  }
}

TEST(Explain, equals_quantize_for_every_format_rule_and_rounding) {
  for (const FormatInfo& format : all_formats()) {
    for (const ScaleRule rule : scale_rules(format.format)) {
      Numerics numerics;
      numerics.scale_rule = rule;
      expect_equal_to_quantize(format.format, numerics,
                               {"--scale-rule", std::string(to_string(rule))});
    }
    for (const Rounding rounding : {Rounding::nearest_away, Rounding::nearest_toward_zero,
                                    Rounding::toward_zero, Rounding::stochastic}) {
      Numerics numerics;
      numerics.rounding = rounding;
      std::vector<std::string> options{"--rounding", std::string(to_string(rounding))};
      if (rounding == Rounding::stochastic) {
        numerics.seed = 42;
        options.insert(options.end(), {"--seed", "42"});
      }
      expect_equal_to_quantize(format.format, numerics, options);
    }
  }
}

TEST(Explain, equals_quantize_for_every_tool_profile) {
  for (const Compat compat : {Compat::torchao, Compat::flashinfer, Compat::vllm,
                              Compat::compressed_tensors, Compat::modelopt, Compat::llama_cpp})
    for (const Format format : {Format::mxfp4, Format::nvfp4})
      expect_equal_to_quantize(format, numerics_for(compat, format),
                               {"--compat", std::string(to_string(compat))});
}

TEST(Explain, says_as_a_tool_only_what_the_tool_does) {
  EXPECT_NE(microscale({"explain", "1", "2", "--compat", "ocp"}).out.find("as ocp does it"),
            std::string::npos);
  const std::string own =
      microscale({"explain", "1", "2", "--compat", "ocp", "--scale-rule", "ceil"}).out;
  EXPECT_NE(own.find("not as ocp does it: scale rule ceil, rounding nearest_even"),
            std::string::npos)
      << own;
}

}  // namespace
}  // namespace microscale::testing
