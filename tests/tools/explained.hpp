// What `explain --json` says.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/subprocess.hpp"

namespace microscale::testing {

using Json = nlohmann::json;

inline Json explained(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), "explain");
  arguments.push_back("--json");
  const Outcome outcome = microscale(std::move(arguments), input);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return Json::parse(outcome.out);
}

inline int scale_byte(std::vector<std::string> arguments) {
  return explained(std::move(arguments))["scale"]["byte"];
}

}  // namespace microscale::testing
