// What an H200 computed, instruction by instruction (`gpu_check ptx` wrote the golden file),
// against the emulator: the same micro-kernels on the same operands.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "emulator/device.hpp"
#include "microscale/error.hpp"
#include "support/opcode_run.hpp"
#include "support/paths.hpp"

namespace microscale::emulator {
namespace {

using opcode_cases::Family;

nlohmann::json golden() {
  std::ifstream file(microscale::testing::test_data() + "/golden/h200_opcodes.json");
  return nlohmann::json::parse(file);
}

class Hardware : public ::testing::TestWithParam<int> {};

TEST_P(Hardware, computes_the_same_bits) {
  const Family family = opcode_cases::families()[static_cast<std::size_t>(GetParam())];
  const nlohmann::json all = golden().at("families");
  ASSERT_TRUE(all.contains(family.name)) << "no GPU was asked about it: `gpu_check ptx --golden`";
  const nlohmann::json expected = all.at(family.name);
  ASSERT_EQ(family.cases.size(), expected.size());
  EmulatorDevice device(9, 0);
  for (const opcode_cases::Case& one : family.cases) {
    try {
      const auto results = opcode_cases::run(device, {family.name, {one}}, "sm_90a");
      EXPECT_EQ(opcode_cases::digest(results[0]), expected.at(one.name).get<std::string>())
          << one.name;
    } catch (const Error& error) {
      ADD_FAILURE() << one.name << " is refused: " << error.what();
    }
  }
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
