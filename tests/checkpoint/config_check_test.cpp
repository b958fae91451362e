#include "checkpoint/config_check.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace microscale {
namespace {

using Texts = std::vector<std::string>;

TEST(ConfigDifferences, are_those_that_no_converter_makes) {
  const std::string original =
      R"({"a": 1, "b": {"c": [1, 2], "dtype": "float32"}, "gone": true, "torch_dtype": "float16"})";
  EXPECT_EQ(config_differences(original, original), Texts());
  EXPECT_EQ(config_differences(
                R"({"a": 2, "b": {"c": [1], "dtype": "bfloat16"}, "torch_dtype": "bfloat16",
                    "quantization_config": {"x": 1}, "new": 0})",
                original),
            (Texts{"a is 2, and 1 in the original", "b.c is [  1], and [  1,  2] in the original",
                   "gone is not there, and true in the original",
                   "new is 0, and not there in the original"}));
}

}  // namespace
}  // namespace microscale
