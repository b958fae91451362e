// Who may touch tensor memory when: a product by warp 0, loads by warp 1, and what stands between.
#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

using enum FindingKind;
constexpr Agent products{0, 0, 1, 0}, loads{0, 1, 2, 0};
constexpr TensorPart d{0, 32, 0, 16};
constexpr std::uint64_t ready = shared_window + 64;

struct Tensor {
  SmallMachine machine;
  std::unique_ptr<ClusterMemory> memory;

  explicit Tensor(AsyncPolicy policy = AsyncPolicy::eager) : machine({.policy = policy}) {
    ClusterShape shape{1, 4, 4096, 0};
    shape.tensor_memory = true;
    memory = machine.cluster(0, shape);
    EXPECT_TRUE(memory->tensor_allocate(products, 512, false));
    memory->mbarrier_init(products, 0, ready, 1);
    memory->on_barrier(0, 0b1111);
  }
  void multiply(const Agent& agent = products, Mode mode = Mode::write) {
    EXPECT_TRUE(memory->tensor_touch(agent, 0, 0, d, AsyncKind::tcgen05, mode, "D"));
    memory->tensor(0).pipeline()[3] = 7;
    memory->tensor_launch(agent, 0, {&d, 1}, AsyncKind::tcgen05);
  }
  void commit() {
    memory->tensor_commit(products, 0, ready);
    memory->tensor_commit_end(products);
  }
  bool wait(std::uint32_t parity = 0) {
    return memory->mbarrier_test_parity(loads, 0, ready, parity);
  }
  std::uint32_t load(const Agent& agent = loads) {
    memory->tensor_touch(agent, 0, 0, d, AsyncKind::tensor_load, Mode::read, "D");
    return memory->tensor(0).visible()[3];
  }
  int count(FindingKind kind) const { return machine.count(kind); }
};

TEST(ClusterTensor, shows_a_product_when_its_commit_was_waited_for) {
  for (const AsyncPolicy policy : {AsyncPolicy::eager, AsyncPolicy::latest, AsyncPolicy::random}) {
    Tensor tensor(policy);
    tensor.multiply();
    tensor.commit();
    while (!tensor.wait()) {
    }
    tensor.memory->tensor_fence(loads, false);
    EXPECT_EQ(tensor.load(), 7u);
    EXPECT_EQ(tensor.machine.all(), 0u) << tensor.machine.first();
  }
}

TEST(ClusterTensor, is_poison_until_then_and_reading_it_a_missing_wait) {
  Tensor tensor(AsyncPolicy::latest);
  tensor.multiply();
  tensor.commit();
  tensor.memory->tensor_fence(loads, false);
  EXPECT_EQ(tensor.load(), 0xcbcbcbcbu);
  EXPECT_GE(tensor.count(missing_wait), 1);
  EXPECT_NE(tensor.machine.first().find("no tcgen05.commit behind it"), std::string::npos);
}

TEST(ClusterTensor, needs_the_fence_of_the_thread_that_goes_on) {
  Tensor tensor;
  tensor.multiply();
  tensor.commit();
  EXPECT_TRUE(tensor.wait());
  tensor.load();
  EXPECT_GE(tensor.count(missing_fence), 1);
  EXPECT_NE(tensor.machine.first().find("after_thread_sync"), std::string::npos);
}

TEST(ClusterTensor, needs_the_fence_of_the_thread_that_has_loaded) {
  for (const bool fenced : {true, false}) {
    Tensor tensor;
    tensor.multiply();
    tensor.commit();
    EXPECT_TRUE(tensor.wait());
    tensor.memory->tensor_fence(loads, false);
    tensor.load();
    tensor.memory->tensor_wait(loads, true);
    if (fenced) tensor.memory->tensor_fence(loads, true);
    tensor.memory->on_barrier(0, 0b11);
    tensor.memory->tensor_fence(products, false);
    tensor.multiply();
    EXPECT_EQ(tensor.count(missing_fence) == 0, fenced);
    EXPECT_EQ(tensor.count(missing_wait), 0);
  }
}

TEST(ClusterTensor, loads_that_nobody_waited_for_are_in_the_way) {
  Tensor tensor;
  tensor.multiply();
  tensor.commit();
  EXPECT_TRUE(tensor.wait());
  tensor.memory->tensor_fence(loads, false);
  tensor.load();
  tensor.memory->tensor_fence(loads, true);
  tensor.memory->on_barrier(0, 0b11);
  tensor.memory->tensor_fence(products, false);
  tensor.multiply();
  EXPECT_GE(tensor.count(missing_wait), 1);
  EXPECT_NE(tensor.machine.first().find("tcgen05.wait::ld"), std::string::npos);
}

TEST(ClusterTensor, products_of_one_thread_follow_each_other_and_those_of_two_need_fences) {
  Tensor tensor;
  tensor.multiply();
  tensor.multiply(products, Mode::update);
  EXPECT_EQ(tensor.machine.all(), 0u) << tensor.machine.first();
  tensor.memory->tensor_fence(products, true);
  tensor.memory->on_barrier(0, 0b11);
  tensor.memory->tensor_fence(loads, false);
  tensor.multiply(loads, Mode::update);  // begun behind the fence: in the order of the pipeline
  EXPECT_EQ(tensor.machine.all(), 0u) << tensor.machine.first();
  tensor.memory->on_barrier(0, 0b101);
  tensor.multiply({0, 2, 3, 0}, Mode::update);
  EXPECT_GE(tensor.count(missing_wait), 1);
}

TEST(ClusterTensor, a_commit_releases_no_stores_of_its_thread) {
  Tensor tensor;
  store(*tensor.memory, products, strided(shared_window + 256, 4));
  tensor.multiply();
  tensor.commit();
  EXPECT_TRUE(tensor.wait());
  emulator::load(*tensor.memory, loads, strided(shared_window + 256, 4));
  EXPECT_EQ(tensor.count(race), 1);
}

TEST(ClusterTensor, a_commit_tells_of_its_own_thread_only) {
  Tensor tensor;
  tensor.multiply();
  tensor.memory->tensor_commit(products, 3, ready);
  EXPECT_EQ(tensor.count(misuse), 1);
  EXPECT_NE(tensor.machine.first().find("lane 0 has begun"), std::string::npos);
}

TEST(ClusterTensor, columns_must_be_allocated_written_and_given_back) {
  Tensor tensor;
  tensor.load();
  EXPECT_GE(tensor.count(uninitialised_memory), 1);
  EXPECT_FALSE(tensor.memory->tensor_free(products, 0, 256));
  EXPECT_FALSE(tensor.memory->tensor_free(products, 32, 32));
  EXPECT_EQ(tensor.count(misuse), 2);
  tensor.memory->tensor_wait(loads, true);
  tensor.memory->on_barrier(0, 0b11);
  EXPECT_TRUE(tensor.memory->tensor_free(products, 0, 512));
  EXPECT_FALSE(
      tensor.memory->tensor_touch(loads, 0, 0, d, AsyncKind::tensor_load, Mode::read, "D"));
  EXPECT_EQ(tensor.count(out_of_bounds), 1);
  EXPECT_EQ(tensor.count(missing_wait), 0);
}

TEST(ClusterTensor, a_block_that_ends_must_have_none_left) {
  Tensor tensor;
  tensor.memory->on_block_end(0, 0);
  EXPECT_EQ(tensor.count(misuse), 1);
  EXPECT_NE(tensor.machine.first().find("tcgen05.dealloc is missing"), std::string::npos);
}

TEST(ClusterTensor, products_under_way_when_the_block_ends_are_a_finding) {
  Tensor tensor(AsyncPolicy::latest);
  tensor.multiply();
  tensor.memory->end();
  EXPECT_EQ(tensor.count(missing_wait), 1);
}

}  // namespace
}  // namespace microscale::emulator
