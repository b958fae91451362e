// Sectors and bank conflicts as the emulator counts them, against an H200's profiler
// (tools/gpu_check/record_counters).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "emulator/device.hpp"
#include "support/counter_cases.hpp"
#include "support/paths.hpp"

namespace microscale::testing {
namespace {

using Counters = std::map<std::string, std::uint64_t>;

Counters counted(const emulator::LaunchReport& report) {
  Counters sums{{"load_sectors", 0}, {"loads", 0},          {"store_sectors", 0},
                {"stores", 0},       {"load_conflicts", 0}, {"store_conflicts", 0}};
  for (const emulator::InstructionCount& each : report.instructions) {
    const bool store = each.opcode.starts_with("st");
    sums[store ? "store_sectors" : "load_sectors"] += each.sectors;
    sums[store ? "stores" : "loads"] += each.global_requests;
    sums[store ? "store_conflicts" : "load_conflicts"] += each.bank_conflicts;
  }
  return sums;
}

TEST(Counters, are_those_of_the_profiler) {
  const std::filesystem::path tests = microscale::testing::test_data();
  std::ifstream file(tests / "golden/h200_counters.json");
  const auto golden = nlohmann::json::parse(file).get<std::vector<Counters>>();
  ASSERT_EQ(golden.size(), counter_cases.size());
  emulator::LaunchOptions options;
  options.statistics = true;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    emulator::EmulatorDevice device(9, 0, options);
    launch_counter_case(device, counter_cases[i], tests);
    EXPECT_TRUE(device.last_report.findings.empty());
    EXPECT_EQ(counted(device.last_report), golden[i]) << counter_cases[i].name;
  }
}

}  // namespace
}  // namespace microscale::testing
