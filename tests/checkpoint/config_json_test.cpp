#include "checkpoint/config_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/compressed_tensors.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

TEST(ConfigJson, keeps_the_numbers_that_python_writes) {
  const char* text = "{\n  \"a\": [\n    0.0,\n    Infinity,\n    -Infinity,\n    NaN\n  ]\n}\n";
  EXPECT_EQ(dump_config(take(parse_config(text))), text);
}

TEST(ConfigJson, leaves_strings_alone) {
  const char* text = "{\n  \"Infinity\": \"NaN, \\\"Infinity\\\" and -Infinity\"\n}\n";
  const auto config = take(parse_config(text));
  EXPECT_EQ(config["Infinity"], "NaN, \"Infinity\" and -Infinity");
  EXPECT_EQ(dump_config(config), text);
}

TEST(ConfigJson, refuses_what_python_does_not_write) {
  for (const char* text : {"{Infinity: 1}", "[-NaN]", "[1Infinity]", "[Infinityx]", "[NaN", "\"\\",
                           "[\"\\u0001python:NaN\"]", ""}) {
    EXPECT_FALSE(parse_config(text)) << text;
  }
}

TEST(ConfigJson, survives_quantizing) {
  const std::string config = take(with_quantization_config(
      R"({"model_type": "mamba2", "time_step_limit": [0.0, Infinity]})", Format::nvfp4, {}));
  EXPECT_NE(config.find("    Infinity\n"), std::string::npos) << config;
}

TEST(ConfigJson, hands_out_members_by_kind) {
  const auto config = take(parse_config(R"({"a": "text", "b": null, "c": ["x", "y"], "d": [1]})"));
  EXPECT_EQ(member(config, "b"), nullptr);
  EXPECT_EQ(member(config, "z"), nullptr);
  EXPECT_EQ(text_member(config, "a"), "text");
  EXPECT_EQ(text_member(config, "c"), "");
  EXPECT_EQ(take(strings_of(member(config, "c"), "c")), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(take(strings_of(nullptr, "c")), std::vector<std::string>());
  EXPECT_TRUE(
      testing::fails_with(strings_of(member(config, "a"), "a"), "a is not a list of names"));
  EXPECT_TRUE(testing::fails_with(strings_of(member(config, "d"), "d"),
                                  "d holds something that is not a name"));
}

TEST(ConfigJson, keeps_the_text_of_every_number) {
  const char* text =
      "{\n  \"a\": 18446744073709551616,\n  \"b\": -99999999999999999999999,\n  \"c\": 1.0E-5,\n"
      "  \"d\": 0.10000000000000000555,\n  \"e\": [\n    1e5,\n    1e-05,\n    7,\n    -0.0\n  ],\n"
      "  \"1e5\": \"1.0E-5\"\n}\n";
  const auto config = take(parse_config(text));
  EXPECT_EQ(dump_config(config), text);
  EXPECT_TRUE(config["e"][2].is_number_integer());
  for (const char* bad : {"[01]", "[1.]", "[-]", "[1e]", "[+1]", "[1 2]", "[0x10]"}) {
    EXPECT_FALSE(parse_config(bad)) << bad;
  }
}

TEST(ConfigJson, changes_the_type_under_each_name_that_it_has) {
  const auto types = [](const std::string& config) {
    const auto written = nlohmann::ordered_json::parse(take(with_quantization(config, {{"a", 1}})));
    return text_member(written, "dtype") + "," + text_member(written, "torch_dtype");
  };
  EXPECT_EQ(types("{}"), ",bfloat16");
  EXPECT_EQ(types(R"({"torch_dtype": "float16"})"), ",bfloat16");
  EXPECT_EQ(types(R"({"dtype": "float16"})"), "bfloat16,");
  EXPECT_EQ(types(R"({"dtype": "float16", "torch_dtype": "float32"})"), "bfloat16,bfloat16");
}

}  // namespace
}  // namespace microscale
