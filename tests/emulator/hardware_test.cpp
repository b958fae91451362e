// What an H200 computed, instruction by instruction (tools/ptx_check wrote the golden file),
// against the emulator: the same micro-kernels on the same operands.
#include <gtest/gtest.h>

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

// What the machine refuses, by name; whatever else it must compute as the GPU does.
bool is_refused(const std::string& name) {
  if (name == "cvt.rz.f16.f32") return false;
  for (const char* family : {"sad.u16", "sad.s16", "sad.u64", "sad.s64", "dp4a.", "bmsk.", "szext.",
                             "cvt.rz.f16.", "cvt.rm.f16.", "cvt.rp.f16."})
    if (name.starts_with(family)) return true;
  return false;
}

class Hardware : public testing::TestWithParam<int> {};

TEST_P(Hardware, computes_the_same_bits) {
  const Family family = opcode_cases::families()[static_cast<std::size_t>(GetParam())];
  const nlohmann::json expected = golden().at("families").at(family.name);
  ASSERT_EQ(family.cases.size(), expected.size());
  EmulatorDevice device(9, 0);
  for (const opcode_cases::Case& one : family.cases) {
    try {
      const auto results = opcode_cases::run(device, {family.name, {one}}, "sm_90a");
      EXPECT_EQ(opcode_cases::digest(results[0]), expected.at(one.name).get<std::string>())
          << one.name;
      EXPECT_FALSE(is_refused(one.name)) << one.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
      EXPECT_TRUE(is_refused(one.name)) << one.name << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(H200, Hardware,
                         testing::Range(0, static_cast<int>(opcode_cases::families().size())),
                         [](const auto& info) {
                           std::string name =
                               opcode_cases::families()[static_cast<std::size_t>(info.param)].name;
                           for (char& letter : name)
                             if (letter == ' ') letter = '_';
                           return name;
                         });

}  // namespace
}  // namespace microscale::emulator
