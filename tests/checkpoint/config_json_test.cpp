#include "checkpoint/config_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/compressed_tensors.hpp"

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

}  // namespace
}  // namespace microscale
