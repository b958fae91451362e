// Four warps that wgmma is for: every one of them must come to each wgmma instruction, in the same
// order. None waits for the others before wait_group; a mma_async is executed with the last of
// them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "emulator/machine/warp.hpp"
#include "emulator/memory/order.hpp"

namespace microscale::emulator {

/// A wgmma instruction to which not all of the four warps have come.
struct WgmmaIssue {
  const Op* op = nullptr;
  std::uint32_t arrived = 0;  // bits of the warps
  // Of a mma_async, as all warps must have it:
  std::uint32_t group = 0;     // of commit_group, from 1; 0: no mma_async
  std::uint64_t a = 0, b = 0;  // descriptors
  bool accumulate = false;
  Knowledge know;  // of every warp that has come
};

class Warpgroup {
 public:
  static constexpr std::uint32_t warps = 4;

  /// The group of warps `first` to `first` + 3 of the block, of which some may not exist.
  void start(Block& block, std::uint32_t first, std::uint64_t seed);

  /// The warp has come to `op`. `issue`: where that is kept, until retire(). Step::stop after a
  /// finding: another warp is at another instruction, or has gone.
  Step arrive(Warp& warp, const Op& op, WgmmaIssue*& issue);
  /// arrive() at a wait_group, whose handler asks again until it can go on; then leave_wait().
  Step arrive_to_wait(Warp& warp, const Op& op);
  void leave_wait(Warp& warp) { waiting_ &= ~(1u << (warp.index() - first_)); }
  /// Forgets the instructions to which all have come.
  void retire();
  /// A mma_async of groups 1 to `done` to which some warp has not come.
  const WgmmaIssue* incomplete(std::uint32_t done) const;
  /// Reports, in the name of `warp`, that others never came to `issue`.
  Step report_missing(Warp& warp, const WgmmaIssue& issue);
  /// A warp of the block has ended.
  void on_exit(Warp& warp);

  bool has(std::uint32_t member) const;  // whether there is such a warp
  Warp& warp(std::uint32_t member) const;
  /// One chance in two: AsyncPolicy::random.
  bool coin();

 private:
  Block* block_ = nullptr;
  std::uint32_t first_ = 0;
  std::deque<WgmmaIssue> issues_;            // oldest first
  std::uint64_t retired_ = 0;                // before those
  std::array<std::uint64_t, warps> came_{};  // how many instructions each warp has come to
  std::uint32_t waiting_ = 0;                // bits of warps at a wait_group
  std::uint64_t random_ = 0;
};

}  // namespace microscale::emulator
