// A launch with everything a memory test needs: accesses by name, findings in a list.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {

class NumberedPlaces : public Places {
 public:
  Finding at(const Agent& agent, int lane) const override {
    Finding finding;
    finding.kernel = "kernel";
    finding.block[0] = agent.block;
    finding.thread[0] = agent.warp * 32 + static_cast<std::uint32_t>(lane);
    finding.ptx_line = agent.instruction;
    return finding;
  }
  std::string name(std::uint32_t instruction) const override {
    return "PTX line " + std::to_string(instruction);
  }
  std::string opcode(std::uint32_t) const override { return "instruction"; }
};

class ListedFindings : public FindingSink {
 public:
  void add(Finding finding, bool fatal) override {
    const std::lock_guard guard(mutex_);
    list.push_back(std::move(finding));
    fatals += fatal;
  }
  int count(FindingKind kind) const {
    int sum = 0;
    for (const Finding& each : list) sum += each.kind == kind;
    return sum;
  }
  std::vector<Finding> list;
  int fatals = 0;

 private:
  std::mutex mutex_;
};

using Addresses = std::array<std::uint64_t, 32>;

inline Addresses strided(std::uint64_t first, std::int64_t step) {
  Addresses addresses;
  for (std::size_t i = 0; i < 32; ++i)
    addresses[i] = first + static_cast<std::uint64_t>(static_cast<std::int64_t>(i) * step);
  return addresses;
}

/// One launch; clusters of it are made by `cluster`.
struct SmallMachine {
  explicit SmallMachine(MemoryOptions options = {}) : launch(global, places, findings, options) {}

  std::unique_ptr<ClusterMemory> cluster(std::uint32_t number = 0,
                                         ClusterShape shape = {1, 4, 16384, 256}) {
    auto made = std::make_unique<ClusterMemory>(launch, shape);
    made->begin(number);
    return made;
  }
  std::uint64_t filled(std::uint64_t bytes, std::uint8_t value = 1) {
    const std::uint64_t address = global.allocate(bytes);
    global.fill(address, value, bytes);
    return address;
  }
  std::string first() const { return findings.list.empty() ? "" : findings.list.front().message; }
  int count(FindingKind kind) const { return findings.count(kind); }
  std::size_t all() const { return findings.list.size(); }

  GlobalMemory global;
  NumberedPlaces places;
  ListedFindings findings;
  LaunchMemory launch;
};

inline LaneWords load(ClusterMemory& memory, const Agent& agent, const Addresses& at, int bytes = 4,
                      std::uint32_t lanes = all_lanes, Order order = Order::weak) {
  LaneWords words{};
  memory.load(agent, {lanes, bytes, at.data(), order, MemoryScope::gpu}, words);
  return words;
}

/// Lane i stores value + i * step.
inline void store(ClusterMemory& memory, const Agent& agent, const Addresses& at, int bytes = 4,
                  std::uint32_t lanes = all_lanes, std::uint32_t value = 0, std::uint32_t step = 1,
                  Order order = Order::weak) {
  LaneWords words{};
  for (auto& row : words.word)
    for (std::uint32_t i = 0; i < 32; ++i) row[i] = value + i * step;
  memory.store(agent, {lanes, bytes, at.data(), order, MemoryScope::gpu}, words);
}

/// Warp 0 of each of `blocks` blocks goes through barrier.cluster; block r is number r of the grid.
inline void meet(ClusterMemory& memory, std::uint32_t blocks, bool relaxed = false) {
  for (std::uint32_t rank = 0; rank < blocks; ++rank)
    memory.on_cluster_arrive({rank, 0, 0, rank}, relaxed);
  memory.on_cluster_open();
  for (std::uint32_t rank = 0; rank < blocks; ++rank) memory.on_cluster_wait(rank, 0);
}

inline std::uint32_t add(ClusterMemory& memory, const Agent& agent, std::uint64_t at,
                         std::uint32_t value, std::uint32_t lanes = 1,
                         MemoryScope scope = MemoryScope::gpu) {
  const Addresses addresses = strided(at, 0);
  LaneWords operand{}, old{};
  operand.word[0].fill(value);
  memory.atomic(agent, {lanes, 4, addresses.data(), Order::relaxed, scope}, AtomicOp::add,
                AtomicType::u32, operand, nullptr, &old);
  return old.word[0][0];
}

}  // namespace microscale::emulator
