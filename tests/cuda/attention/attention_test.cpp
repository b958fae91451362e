// Calls of attention: what a device is told where memory is, whatever kernels a plan names.
#include "cuda/attention/attention.hpp"

#include <gtest/gtest.h>

#include "attention/attention_calls.hpp"
#include "cuda/device/kernel_images.hpp"
#include "operations_support.hpp"

namespace microscale::cuda::attention {
namespace {

using test::memory, test::Wanted;

class AttentionCalls : public ::testing::Test {
 protected:
  static inline test::FakeDevice hopper{9, 0}, datacenter{10, 0}, consumer{12, 0};
  test::FakeDevice* const all[3] = {&hopper, &datacenter, &consumer};
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }
};

// A kept plan run with other memory tells the device what an eager call does.
TEST_F(AttentionCalls, is_a_function_of_the_call_wherever_its_memory_is) {
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    Wanted wanted = test::any_call(random);
    const AttentionOptions made = test::options_of(wanted);
    wanted.shift = test::elsewhere;
    const AttentionOptions other = test::options_of(wanted);
    test::FakeDevice& device = *all[i % 3];
    const DeviceFacts facts(device);
    attention::Plan plan;
    try {
      plan = choose(facts, check_attention(made, true));
    } catch (const Error&) {
      EXPECT_THROW(choose(facts, check_attention(other, true)), Error);
      continue;
    }
    EXPECT_EQ(describe(choose(facts, check_attention(other, true))), describe(plan));
    const std::vector<test::FakeDevice::Seen> eager = test::launches_of(device, other);
    device.launches.clear();
    const auto bytes = static_cast<std::size_t>(plan.workspace_bytes());
    attention::run(device, plan, check_attention(other, true),
                   {memory(test::workspace_memory), bytes}, nullptr);
    ASSERT_EQ(device.launches.size(), eager.size());
    for (std::size_t n = 0; n < eager.size(); ++n) {
      EXPECT_EQ(device.launches[n].name, eager[n].name);
      EXPECT_EQ(device.launches[n].call.grid.x, eager[n].call.grid.x);
      EXPECT_EQ(test::pointers_of(device.launches[n]), test::pointers_of(eager[n]));
    }
  }
}

TEST_F(AttentionCalls, has_nothing_to_do_without_queries) {
  for (test::FakeDevice* device : all) {
    EXPECT_TRUE(
        test::names_of(*device, test::options_of({.cache = KvFormat::nvfp4, .q_len = 0})).empty());
  }
}

TEST_F(AttentionCalls, refuses_memory_of_the_host_and_workspaces_in_use) {
  const AttentionOptions o = test::options_of({.cache = KvFormat::nvfp4, .kv_len = 4096});
  const auto run = [&](const AttentionOptions& options) { test::launches_of(hopper, options); };
  hopper.host_only = o.cache->lengths;
  test::expect_error(ErrorCode::invalid_argument, "does not have the memory of the cache's lengths",
                     [&] { run(o); });
  hopper.host_only = memory(test::workspace_memory);
  test::expect_error(ErrorCode::invalid_argument, "does not have the memory of the workspace",
                     [&] { run(o); });
  hopper.host_only = nullptr;
  AttentionOptions in_use = o;
  in_use.output.data = memory(test::workspace_memory);
  test::expect_error(ErrorCode::invalid_argument, "the workspace overlaps the output",
                     [&] { run(in_use); });
}

TEST_F(AttentionCalls, wants_the_workspace_that_it_says) {
  const Wanted kinds[] = {{.cache = KvFormat::nvfp4, .kv_len = 4096},
                          {.q_len = 600, .kv_len = 600},
                          {.cache = KvFormat::nvfp4,
                           .kv_len = 4096,
                           .numerics = {.accuracy = AttentionAccuracy::one_term}}};
  test::FakeDevice* const devices[] = {&hopper, &hopper, &consumer};
  for (int i = 0; i < 3; ++i) {
    const AttentionOptions o = test::options_of(kinds[i]);
    const AttentionCall call = check_attention(o, true);
    const std::int64_t bytes = attention::workspace_bytes(*devices[i], call);
    EXPECT_GT(bytes, 0);
    test::expect_error(ErrorCode::invalid_argument, "allocate attention_workspace_bytes", [&] {
      attention::attend(*devices[i], call,
                        {memory(test::workspace_memory), static_cast<std::size_t>(bytes - 1)},
                        nullptr);
    });
  }
}

}  // namespace
}  // namespace microscale::cuda::attention
