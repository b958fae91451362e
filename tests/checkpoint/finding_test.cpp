#include "checkpoint/finding.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(Finding, begins_with_its_place) {
  EXPECT_EQ(make_finding(Severity::error, "rule", "a.safetensors", "m.weight", "is wrong; mend it")
                .message,
            "a.safetensors: 'm.weight': is wrong; mend it");
  EXPECT_EQ(make_finding(Severity::error, "rule", "config.json", "", "is wrong").message,
            "config.json: is wrong");
  EXPECT_EQ(make_finding(Severity::warning, "rule", "", "m", "is wrong").message, "'m': is wrong");
}

TEST(Finding, makes_hostile_names_harmless) {
  const Finding finding = make_finding(Severity::error, "rule", "", "a\n\033[2Jb", "is wrong");
  EXPECT_EQ(finding.message.find('\n'), std::string::npos);
  EXPECT_EQ(finding.message.find('\033'), std::string::npos);
  EXPECT_EQ(finding.tensor, "a\n\033[2Jb");
}

}  // namespace
}  // namespace microscale
