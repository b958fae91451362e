#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

TEST(Version, names_the_backends_and_the_cores) {
  const auto json = nlohmann::json::parse(microscale({"version", "--json"}).out);
  EXPECT_GE(json["cores"], 1);
  EXPECT_FALSE(json["backends"].empty());
  const Outcome text = microscale({"version"});
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.out.find("microscale " + json["version"].get<std::string>() + "\nbackends: "), 0u)
      << text.out;
}

}  // namespace
}  // namespace microscale::testing
