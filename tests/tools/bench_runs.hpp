// Runs of `microscale bench` on cases so small that they take no time; what they measure means
// nothing.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/subprocess.hpp"

namespace microscale::testing {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

inline Words quick(const std::string& operation, const Words& more = {}) {
  Words words{"bench", operation, "--quick", "--threads", "1", "--backend", "cpu"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The one table of a run on the CPU; `words` ask for JSON.
inline Json table_of(const Words& words) {
  const Outcome outcome = microscale(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["operation"], words[1]);
  EXPECT_EQ(json["tables"].size(), 1u);
  return json["tables"][0];
}

}  // namespace microscale::testing
