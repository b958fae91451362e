#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

constexpr std::uint64_t place = shared_window + 8192;
const AsyncPolicy policies[] = {AsyncPolicy::eager, AsyncPolicy::latest, AsyncPolicy::random};

/// Warp 0 copies 512 bytes by cp.async; returns what lane 1 of warp 0 reads afterwards.
std::uint32_t copied(SmallMachine& machine, ClusterMemory& memory, bool wait) {
  const std::uint64_t a = machine.filled(512, 5);
  const Addresses from = strided(a, 16), to = strided(shared_window, 16);
  memory.cp_async({0, 0, 1, 0}, {all_lanes, 16, to.data()}, from.data(), nullptr);
  memory.commit({0, 0, 2, 0}, AsyncKind::cp_async);
  if (wait) memory.wait({0, 0, 3, 0}, AsyncKind::cp_async, 0);
  return load(memory, {0, 0, 4, 0}, to, 16).word[2][1];
}

void wait_for(ClusterMemory& memory, const Agent& agent, std::uint32_t parity) {
  for (int turn = 0; turn < 1000; ++turn)
    if (memory.mbarrier_test_parity(agent, 0, place, parity)) return;
  FAIL() << "the mbarrier never completes";
}

/// init, arrive.expect_tx and a bulk copy of 1024 bytes to shared memory by warp 0.
std::uint64_t start_bulk(SmallMachine& machine, ClusterMemory& memory,
                         std::uint32_t expected = 1024) {
  const std::uint64_t a = machine.filled(1024, 9);
  memory.mbarrier_init({0, 0, 1, 0}, 0, place, 1);
  memory.on_proxy_fence({0, 0, 2, 0});
  memory.on_barrier(0, 0xf);
  memory.mbarrier_arrive({0, 0, 3, 0}, 0, place, 1, expected);
  memory.bulk_copy({0, 0, 4, 0}, 0, shared_window, a, 1024, place);
  return a;
}

TEST(CpAsync, lands_by_its_wait_under_every_policy) {
  for (const AsyncPolicy policy : policies) {
    SmallMachine machine({.policy = policy, .seed = 3});
    auto memory = machine.cluster();
    EXPECT_EQ(copied(machine, *memory, true), 0x05050505u);
    EXPECT_EQ(machine.all(), 0u) << machine.first();
  }
}

TEST(CpAsync, of_another_lane_needs_a_warp_barrier_after_the_wait) {
  for (const bool synchronised : {true, false}) {
    SmallMachine machine;
    auto memory = machine.cluster();
    copied(machine, *memory, true);
    if (synchronised) memory->on_warp_sync({0, 0, 4, 0});
    load(*memory, {0, 0, 5, 0}, strided(shared_window + 496, -16), 16);  // backwards
    EXPECT_EQ(machine.count(FindingKind::missing_wait), synchronised ? 0 : 32);
  }
}

TEST(CpAsync, that_was_waited_for_long_ago_needs_no_second_barrier) {
  SmallMachine machine;
  auto memory = machine.cluster();
  copied(machine, *memory, true);
  memory->on_warp_sync({0, 0, 4, 0});
  const std::uint64_t a = machine.filled(512, 6);
  const Addresses from = strided(a, 16), to = strided(shared_window + 512, 16);
  memory->cp_async({0, 0, 5, 0}, {all_lanes, 16, to.data()}, from.data(), nullptr);
  memory->commit({0, 0, 6, 0}, AsyncKind::cp_async);
  memory->wait({0, 0, 7, 0}, AsyncKind::cp_async, 0);
  load(*memory, {0, 0, 8, 0}, strided(shared_window + 496, -16), 16);  // of the first copy
  EXPECT_EQ(machine.all(), 0u) << machine.first();
}

TEST(CpAsync, without_a_wait_is_a_finding_and_gives_poison_when_late) {
  for (const AsyncPolicy policy : policies) {
    SmallMachine machine({.policy = policy});
    auto memory = machine.cluster();
    const std::uint32_t value = copied(machine, *memory, false);
    EXPECT_EQ(machine.count(FindingKind::missing_wait), 1);
    EXPECT_NE(machine.first().find("started at PTX line 1, writes: nothing waited for it"),
              std::string::npos)
        << machine.first();
    if (policy == AsyncPolicy::latest) {
      EXPECT_EQ(value, 0xcbcbcbcbu);
    }
  }
}

TEST(CpAsync, fills_with_zeros_behind_the_source_bytes) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(512, 5);
  const Addresses from = strided(a, 8), to = strided(shared_window, 8);
  std::uint32_t given[32];
  for (std::uint32_t i = 0; i < 32; ++i) given[i] = i % 9;
  memory->cp_async({0, 0, 1, 0}, {all_lanes, 8, to.data()}, from.data(), given);
  memory->commit({0, 0, 2, 0}, AsyncKind::cp_async);
  memory->wait({0, 0, 3, 0}, AsyncKind::cp_async, 0);
  const LaneWords words = load(*memory, {0, 0, 4, 0}, to, 8);
  EXPECT_EQ(words.word[0][0], 0u);
  EXPECT_EQ(words.word[0][3], 0x00050505u);
  EXPECT_EQ(words.word[1][6], 0x00000505u);
  EXPECT_EQ(words.word[1][8], 0x05050505u);
  EXPECT_EQ(machine.all(), 0u) << machine.first();
}

TEST(CpAsync, waits_for_older_groups_only) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(256, 5);
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    const Addresses from = strided(a + stage * 128, 4),
                    to = strided(shared_window + stage * 128, 4);
    memory->cp_async({0, 0, 1 + stage, 0}, {all_lanes, 4, to.data()}, from.data(), nullptr);
    memory->commit({0, 0, 3, 0}, AsyncKind::cp_async);
  }
  memory->wait({0, 0, 4, 0}, AsyncKind::cp_async, 1);
  EXPECT_EQ(load(*memory, {0, 0, 5, 0}, strided(shared_window, 4)).word[0][7], 0x05050505u);
  EXPECT_EQ(machine.all(), 0u) << machine.first();
  load(*memory, {0, 0, 6, 0}, strided(shared_window + 128, 4));
  EXPECT_EQ(machine.count(FindingKind::missing_wait), 1);
}

TEST(CpAsync, of_another_warp_needs_a_barrier_after_the_wait) {
  for (const bool met : {true, false}) {
    SmallMachine machine;
    auto memory = machine.cluster();
    copied(machine, *memory, true);
    if (met) memory->on_barrier(0, 0xf);
    load(*memory, {0, 1, 9, 0}, strided(shared_window, 4));
    EXPECT_EQ(machine.all(), met ? 0u : 1u) << machine.first();
  }
}

TEST(CpAsync, arrives_at_an_mbarrier_when_landed) {
  for (const AsyncPolicy policy : policies) {
    SmallMachine machine({.policy = policy});
    auto memory = machine.cluster();
    memory->mbarrier_init({0, 0, 1, 0}, 0, place, 1);
    memory->on_barrier(0, 0xf);
    const std::uint64_t a = machine.filled(512, 5);
    const Addresses from = strided(a, 16), to = strided(shared_window, 16);
    memory->cp_async({0, 0, 2, 0}, {all_lanes, 16, to.data()}, from.data(), nullptr);
    memory->cp_async_mbarrier_arrive({0, 0, 3, 0}, 0, place, false);
    wait_for(*memory, {0, 1, 4, 0}, 0);
    EXPECT_EQ(load(*memory, {0, 1, 5, 0}, to, 16).word[3][31], 0x05050505u);
    EXPECT_EQ(machine.all(), 0u) << machine.first();
  }
}

TEST(Bulk, completes_its_mbarrier_under_every_policy) {
  for (const AsyncPolicy policy : policies) {
    SmallMachine machine({.policy = policy, .seed = 11});
    auto memory = machine.cluster();
    start_bulk(machine, *memory);
    wait_for(*memory, {0, 2, 5, 0}, 0);
    EXPECT_EQ(load(*memory, {0, 2, 6, 0}, strided(shared_window + 896, 4)).word[0][31],
              0x09090909u);
    EXPECT_EQ(machine.all(), 0u) << machine.first();
    EXPECT_FALSE(memory->in_flight());
  }
}

TEST(Bulk, read_or_written_before_its_wait_is_a_finding) {
  SmallMachine machine;
  auto memory = machine.cluster();
  start_bulk(machine, *memory);
  load(*memory, {0, 0, 6, 0}, strided(shared_window, 4));
  store(*memory, {0, 1, 7, 0}, strided(shared_window + 512, 4));
  EXPECT_EQ(machine.count(FindingKind::missing_wait), 2);
  EXPECT_EQ(machine.all(), 2u);
}

TEST(Bulk, with_too_few_expected_bytes_never_completes_its_phase_in_order) {
  SmallMachine machine;
  auto memory = machine.cluster();
  start_bulk(machine, *memory, 2048);
  EXPECT_FALSE(memory->mbarrier_test_parity({0, 0, 5, 0}, 0, place, 0));
  EXPECT_FALSE(memory->land_all());
}

TEST(Bulk, write_to_global_waits_by_groups_and_frees_its_source_by_read) {
  for (const AsyncPolicy policy : policies) {
    SmallMachine machine({.policy = policy});
    auto memory = machine.cluster();
    const std::uint64_t out = machine.global.allocate(512);
    store(*memory, {0, 0, 1, 0}, strided(shared_window, 16), 16, all_lanes, 4, 0);
    memory->on_proxy_fence({0, 0, 2, 0});
    memory->on_warp_sync({0, 0, 2, 0});
    memory->bulk_copy({0, 0, 3, 0}, 0, out, shared_window, 512, 0);
    memory->commit({0, 0, 4, 0}, AsyncKind::bulk);
    memory->wait({0, 0, 5, 0}, AsyncKind::bulk, 0, true);
    memory->on_warp_sync({0, 0, 6, 0});
    store(*memory, {0, 0, 7, 0}, strided(shared_window, 16), 16, all_lanes, 99, 0);
    EXPECT_EQ(machine.all(), 0u) << machine.first();
    load(*memory, {0, 0, 8, 0}, strided(out, 4));
    EXPECT_EQ(machine.count(FindingKind::missing_wait), 1);
    memory->wait({0, 0, 9, 0}, AsyncKind::bulk, 0);
    EXPECT_EQ(load(*memory, {0, 0, 10, 0}, strided(out, 4)).word[0][3], 4u);
    EXPECT_EQ(machine.all(), 1u);
  }
}

TEST(Bulk, overwriting_a_source_still_read_is_a_finding) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t out = machine.global.allocate(512);
  store(*memory, {0, 0, 1, 0}, strided(shared_window, 16), 16);
  memory->on_proxy_fence({0, 0, 2, 0});
  memory->on_warp_sync({0, 0, 2, 0});
  memory->bulk_copy({0, 0, 3, 0}, 0, out, shared_window, 512, 0);
  memory->commit({0, 0, 4, 0}, AsyncKind::bulk);
  store(*memory, {0, 0, 7, 0}, strided(shared_window, 16), 16, 1);
  ASSERT_EQ(machine.count(FindingKind::missing_wait), 1);
  EXPECT_NE(machine.first().find("reads: nothing waited for it"), std::string::npos);
}

TEST(Bulk, of_generic_writes_needs_a_proxy_fence) {
  for (const int fence : {0, 1, 2}) {  // none, by the writers, by the issuer after the barrier
    SmallMachine machine;
    auto memory = machine.cluster();
    const std::uint64_t out = machine.global.allocate(512);
    for (std::uint32_t warp = 0; warp < 4; ++warp) {
      store(*memory, {0, warp, 1, 0}, strided(shared_window + warp * 128, 4));
      if (fence == 1) memory->on_proxy_fence({0, warp, 2, 0});
    }
    memory->on_barrier(0, 0xf);
    if (fence == 2) memory->on_proxy_fence({0, 0, 3, 0});
    memory->bulk_copy({0, 0, 4, 0}, 0, out, shared_window, 512, 0);
    EXPECT_EQ(machine.count(FindingKind::missing_fence), fence == 0 ? 4 : 0);
    EXPECT_EQ(machine.count(FindingKind::race), 0);
  }
}

TEST(Bulk, refuses_odd_sizes_and_addresses) {
  SmallMachine machine;
  auto memory = machine.cluster();
  const std::uint64_t a = machine.filled(1024);
  memory->mbarrier_init({0, 0, 1, 0}, 0, place, 1);
  memory->bulk_copy({0, 0, 2, 0}, 0, shared_window, a, 24, place);
  EXPECT_EQ(machine.count(FindingKind::misuse), 1);
  memory->bulk_copy({0, 0, 3, 0}, 0, shared_window + 8, a, 32, place);
  EXPECT_EQ(machine.count(FindingKind::misaligned), 1);
  memory->bulk_copy({0, 0, 4, 0}, 0, shared_window, a + 1008, 32, place);
  EXPECT_EQ(machine.count(FindingKind::out_of_bounds), 1);
  memory->bulk_copy({0, 0, 5, 0}, 0, shared_window, a, 32, place + 64);
  EXPECT_EQ(machine.count(FindingKind::misuse), 2);
}

TEST(Bulk, left_on_its_way_at_the_end_is_a_finding) {
  SmallMachine machine;
  auto memory = machine.cluster();
  start_bulk(machine, *memory);
  memory->end();
  EXPECT_EQ(machine.count(FindingKind::missing_wait), 1);
}

TEST(Tensor, loads_a_swizzled_box_with_zeros_outside_and_stores_it_back) {
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    SmallMachine machine;
    auto memory = machine.cluster();
    TensorMap map;
    map.rank = 2;
    map.element_bytes = 2;
    map.size = {40, 20};
    map.stride = {2, 96};
    map.box = {16, 16};
    map.swizzle = swizzle;
    std::vector<std::uint16_t> values(48 * 20);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i + 1);
    map.address = machine.global.allocate(values.size() * 2);
    machine.global.write(map.address, values.data(), values.size() * 2);
    const TensorMapBytes descriptor = encode(map);
    machine.launch.params.assign(descriptor.begin(), descriptor.end());

    memory->mbarrier_init({0, 0, 1, 0}, 0, place, 1);
    memory->on_proxy_fence({0, 0, 1, 0});
    memory->on_barrier(0, 0xf);
    memory->mbarrier_arrive({0, 0, 2, 0}, 0, place, 1, map.box_bytes());
    const std::int32_t at[] = {32, 10};  // 8 columns and 10 rows inside
    memory->tensor_load({0, 0, 3, 0}, 0, shared_window, param_window, at, place);
    wait_for(*memory, {0, 0, 4, 0}, 0);
    for (std::uint32_t row = 0; row < 16; ++row)
      for (std::uint32_t column = 0; column < 16; ++column) {
        const std::uint64_t where = shared_window + swizzled(swizzle, 0, row * 32 + column * 2);
        const bool inside = row < 10 && column < 8;
        EXPECT_EQ(load(*memory, {0, 0, 5, 0}, strided(where, 0), 2, 1).word[0][0],
                  inside ? (row + 10) * 48 + column + 32 + 1 : 0u);
      }
    machine.global.fill(map.address, 0, values.size() * 2);
    const std::int32_t back[] = {-4, 0};
    memory->tensor_store({0, 0, 6, 0}, 0, param_window, back, shared_window);
    memory->commit({0, 0, 7, 0}, AsyncKind::bulk);
    memory->wait({0, 0, 8, 0}, AsyncKind::bulk, 0);
    std::uint16_t cell = 0;
    machine.global.read(map.address + 2 * 96 + 2 * 2, &cell,
                        2);  // row 2, column 2: of the box column 6
    EXPECT_EQ(cell, 12 * 48 + 38 + 1);
    EXPECT_EQ(machine.all(), 0u) << machine.first();
  }
}

TEST(BulkCopy, needs_a_fence_after_its_mbarrier_is_made) {
  for (const int fence : {0, 1, 2}) {
    SmallMachine machine;
    auto memory = machine.cluster();
    memory->mbarrier_init({0, 0, 1, 0}, 0, place, 1);
    if (fence == 1) memory->on_proxy_fence({0, 0, 2, 0});
    if (fence == 2) memory->on_fence({0, 0, 2, 0}, MemoryScope::cluster);  // fence.mbarrier_init
    memory->mbarrier_arrive({0, 0, 3, 0}, 0, place, 1, 64);
    memory->bulk_copy({0, 0, 4, 0}, 0, shared_window, machine.filled(64), 64, place);
    wait_for(*memory, {0, 0, 5, 0}, 0);
    EXPECT_EQ(machine.count(FindingKind::missing_fence), fence == 0 ? 1 : 0);
  }
}

TEST(StoreAsync, gives_what_its_sender_knew_and_not_what_it_does_behind) {
  SmallMachine machine({.policy = AsyncPolicy::eager});
  auto memory = machine.cluster();
  const std::uint64_t before = machine.filled(128), behind = machine.filled(128);
  const Addresses to = strided(shared_window, 4);
  const std::uint8_t values[4] = {};
  memory->mbarrier_init({0, 0, 1, 0}, 0, place, 1);
  memory->on_proxy_fence({0, 0, 2, 0});
  memory->on_barrier(0, 0xf);
  memory->mbarrier_arrive({0, 0, 3, 0}, 0, place, 1, 4);
  store(*memory, {0, 1, 4, 0}, strided(before, 4));
  memory->store_async({0, 1, 5, 0}, {1, 4, to.data()}, values, &place);
  store(*memory, {0, 1, 6, 0}, strided(behind, 4));
  wait_for(*memory, {0, 0, 7, 0}, 0);
  load(*memory, {0, 0, 8, 0}, strided(before, 4));
  EXPECT_EQ(machine.all(), 0u) << machine.first();
  load(*memory, {0, 0, 9, 0}, strided(behind, 4));
  EXPECT_EQ(machine.count(FindingKind::race), 1);
}

TEST(Tensor, map_that_is_none_is_a_finding) {
  SmallMachine machine;
  auto memory = machine.cluster();
  machine.launch.params.resize(128);
  const std::int32_t at[] = {0, 0};
  memory->tensor_load({0, 0, 3, 0}, 0, shared_window, param_window, at, place);
  EXPECT_EQ(machine.count(FindingKind::misuse), 1);
}

}  // namespace
}  // namespace microscale::emulator
