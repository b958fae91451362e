// Every kernel that the library carries, executed by the emulator on small and odd shapes: the
// bytes of the CPU, and nothing to be found fault with. What is compared is gpu_check's.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/device/environment.hpp"
#include "cuda/device/kernel_images.hpp"
#include "cuda/device/kernels.hpp"
#include "equality.hpp"
#include "fused.hpp"
#include "grouped.hpp"
#include "products.hpp"
#include "tasks.hpp"
#include "emulator/device.hpp"

namespace microscale::emulator {
namespace {

struct Gpu {
  int major;
  const char* architecture;
  Schedule schedule;
  Completion completion;
};
// Each in another order, because what is right must be right in any.
constexpr Gpu gpus[] = {
    {9, "sm_90a", Schedule::round_robin, Completion::latest},
    {10, "sm_100f", Schedule::reverse, Completion::eager},
    {12, "sm_120f", Schedule::random, Completion::random},
};

enum class Part : std::uint8_t { rows, columns, grouped, fused, products, containers };
constexpr const char* part_names[] = {"rows",  "columns",  "grouped",
                                      "fused", "products", "containers"};

// What one test executes; containers are of no format.
struct Share {
  Gpu gpu;
  Part part;
  Format format;
};

std::vector<Share> shares() {
  std::vector<Share> all;
  for (const Gpu& gpu : gpus) {
    for (const Part part : {Part::rows, Part::columns, Part::grouped, Part::fused, Part::products})
      for (const Format format : cuda::Scope{}.formats) all.push_back({gpu, part, format});
    all.push_back({gpu, Part::containers, Format::mxfp4});
  }
  return all;
}

// Attention and matrix products of one architecture have tests of their own, each of which looks
// whether all of its entry points were executed: tests/emulator/attention_*_test.cpp,
// append_kv_test.cpp, matmul_*_test.cpp. A family that is not named here is executed here.
bool is_tested_elsewhere(std::string_view entry) {
  for (const std::string_view family :
       {"attention_", "append_", "matmul_few_rows_", "matmul_in_registers_", "matmul_expand_",
        "matmul_expanded_", "matmul_ready_fp8", "matmul_prepare_tiles_", "matmul_prepare_blocks_",
        "matmul_block_scaled_", "matmul_tcgen05_", "matmul_scale_tiles", "matmul_vector_"})
    if (entry.starts_with(family)) return true;
  return false;
}

// Which part executes an entry point, by its name.
Part part_of(std::string_view entry) {
  const auto begins = [entry](std::string_view with) { return entry.starts_with(with); };
  if (begins("grouped_")) return Part::grouped;
  if (begins("fused_")) return Part::fused;
  if (begins("matmul_") || begins("pack_weights_")) return Part::products;
  if (begins("containers_") || begins("codes_")) return Part::containers;
  if (begins("quantize_columns_") || begins("quantize_both_")) return Part::columns;
  return Part::rows;
}

bool belongs_to(std::string_view entry, const Share& share) {
  if (is_tested_elsewhere(entry) || part_of(entry) != share.part) return false;
  for (const Format format : cuda::Scope{}.formats)
    if (entry.find(info(format).name) != entry.npos) return format == share.format;
  // pack_weights_mxfp8 and a in BF16 or FP16 are of one format's products,
  if (share.part == Part::products) return share.format == Format::mxfp8_e4m3;
  // abs_max and global_scale are NVFP4's, repack anyone's.
  return share.part == Part::containers || share.format == Format::nvfp4;
}

// One multiprocessor: small matrices are large for it.
EmulatorDevice device_of(const Gpu& gpu) {
  return {gpu.major,
          0,
          {.schedule = gpu.schedule,
           .completion = gpu.completion,
           .seed = 1,
           .instruction_budget = 1'000'000'000,
           .threads = 1},
          1};
}

class ShippedKernels : public ::testing::TestWithParam<Share> {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};
std::string name_of(const Share& share) {
  std::string name =
      std::string(share.gpu.architecture) + "_" + part_names[static_cast<std::size_t>(share.part)];
  if (share.part != Part::containers) name += "_" + std::string(info(share.format).name);
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, ShippedKernels, ::testing::ValuesIn(shares()),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(ShippedKernels, make_the_bytes_of_the_cpu_and_none_is_left_out) {
  const Share& share = GetParam();
  EmulatorDevice device = device_of(share.gpu);
  const cuda::DeviceInForce in_force(device);
  const cuda::Scope scope{.amount = cuda::Amount::least, .formats = {share.format}};
  cuda::EqualityTotals totals;
  if (share.part == Part::rows || share.part == Part::columns)
    totals = cuda::check_equality(device, scope,
                                  {share.part == Part::rows, share.part == Part::columns});
  if (share.part == Part::grouped) cuda::check_grouped(device, scope, totals);
  if (share.part == Part::fused) cuda::check_fused(device, scope, totals);
  if (share.part == Part::products) cuda::check_products(device, scope, totals);
  if (share.part == Part::containers) cuda::check_containers(device, totals);
  EXPECT_EQ(totals.failed, 0);
  for (const std::string& difference : totals.differences) ADD_FAILURE() << difference;

  int expected = 0;
  for (const std::string& entry : cuda::kernel_names(share.gpu.architecture))
    if (belongs_to(entry, share)) {
      ++expected;
      EXPECT_TRUE(device.executed.contains(entry)) << entry << " was never executed";
    }
  EXPECT_GT(expected, 0);
  RecordProperty("kernels", std::to_string(device.executed.size()));
  RecordProperty("calls", std::to_string(totals.calls));
}

// The tasks of "Twelve Attempts" on their own data, with scales row by row and in tiles.
TEST(ArticleTasks, are_within_their_tolerance) {
  if (cuda::kernel_images().empty())
    GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  for (const Gpu& gpu : gpus) {
    EmulatorDevice device = device_of(gpu);
    const cuda::DeviceInForce in_force(device);
    cuda::EqualityTotals totals;
    cuda::check_tasks(device, {.amount = cuda::Amount::least}, totals);
    EXPECT_EQ(totals.calls, 28) << gpu.architecture;
    for (const std::string& difference : totals.differences)
      ADD_FAILURE() << gpu.architecture << ": " << difference;
  }
}

TEST(ShippedKernelShares, leave_no_entry_point_to_nobody) {
  if (cuda::kernel_images().empty())
    GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  for (const Gpu& gpu : gpus) {
    std::vector<std::string> entries = cuda::kernel_names(gpu.architecture);
    std::erase_if(entries, [](std::string_view entry) { return is_tested_elsewhere(entry); });
    EXPECT_GT(entries.size(), 300u) << gpu.architecture;
    for (const std::string& entry : entries) {
      int owners = 0;
      for (const Share& share : shares())
        owners += share.gpu.major == gpu.major && belongs_to(entry, share);
      EXPECT_EQ(owners, 1) << entry << " of " << gpu.architecture;
    }
  }
}

}  // namespace
}  // namespace microscale::emulator
