#include "microscale/version.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace microscale {
namespace {

TEST(Version, is_three_numbers) {
  const std::string text(version());
  EXPECT_TRUE(std::regex_match(text, std::regex(R"(\d+\.\d+\.\d+)"))) << text;
}

}  // namespace
}  // namespace microscale
