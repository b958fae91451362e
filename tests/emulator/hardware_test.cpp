// What an H200 computed, instruction by instruction (tools/ptx_check wrote the golden file),
// against the emulator: the same micro-kernels on the same operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "emulator/device.hpp"
#include "microscale/error.hpp"
#include "support/opcode_run.hpp"

namespace microscale::emulator {
namespace {

using opcode_cases::Family;

nlohmann::json golden() {
  std::ifstream file(MICROSCALE_TEST_DATA "/golden/h200_opcodes.json");
  return nlohmann::json::parse(file);
}

class Hardware : public ::testing::TestWithParam<int> {};

TEST_P(Hardware, computes_the_same_bits) {
  const Family family = opcode_cases::families()[static_cast<std::size_t>(GetParam())];
  const nlohmann::json all = golden().at("families");
  // A family that no GPU was asked about yet: the machine must at least know it.
  const bool asked = all.contains(family.name);
  const nlohmann::json expected = asked ? all.at(family.name) : nlohmann::json();
  if (asked) {
    ASSERT_EQ(family.cases.size(), expected.size());
  }
  EmulatorDevice device(9, 0);
  for (const opcode_cases::Case& one : family.cases) {
    try {
      const auto results = opcode_cases::run(device, {family.name, {one}}, "sm_90a");
      if (!asked) continue;
      EXPECT_EQ(opcode_cases::digest(results[0]), expected.at(one.name).get<std::string>())
          << one.name;
    } catch (const Error& error) {
      ADD_FAILURE() << one.name << " is refused: " << error.what();
    }
  }
}

TEST(H200, was_asked_about_these_families) {
  std::vector<std::string> asked;
  const nlohmann::json all = golden().at("families");
  for (const auto& [name, words] : all.items()) asked.push_back(name);
  for (const char* name : {"integer arithmetic", "bits", "comparison", "floating point",
                           "half precision", "conversion", "warp", "approximate"})
    EXPECT_EQ(std::count(asked.begin(), asked.end(), name), 1) << name;
}

INSTANTIATE_TEST_SUITE_P(H200, Hardware,
                         ::testing::Range(0, static_cast<int>(opcode_cases::families().size())),
                         [](const auto& info) {
                           std::string name =
                               opcode_cases::families()[static_cast<std::size_t>(info.param)].name;
                           for (char& letter : name)
                             if (letter == ' ') letter = '_';
                           return name;
                         });

}  // namespace
}  // namespace microscale::emulator
