// tcgen05: allocation, fences, loads, stores and copies of tensor memory, and commits. Products are
// in tcgen05_mma.cpp.
#include "emulator/ops/tcgen05.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "emulator/memory/undefined_bytes.hpp"
#include "emulator/ops/address.hpp"
#include "emulator/ops/barrier.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/matrix.hpp"
#include "emulator/ops/target.hpp"
#include "emulator/tensor/descriptor_check.hpp"
#include "emulator/tensor/matrix_descriptor.hpp"

namespace microscale::emulator {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

bool same_in_warp(const Op& op, Warp& warp, Slot slot, u32 lanes, const char* what, u32& value) {
  const u32* row = warp.row32(slot);
  value = row[std::countr_zero(lanes)];
  for (u32 left = lanes; left; left &= left - 1)
    if (const int lane = std::countr_zero(left); row[lane] != value) {
      warp.report(
          op, FindingKind::misuse, lane,
          fmt::format("{} is {:#x} in lane {} and {:#x} in lane {}; all threads of the warp "
                      "must have the same",
                      what, row[lane], lane, value, std::countr_zero(lanes)),
          true);
      return false;
    }
  return true;
}

Step one_lane(const Op& op, Warp& warp, u32 lanes) {
  if ((lanes & (lanes - 1)) == 0) return Step::next;
  return warp.report(op, FindingKind::misuse, std::countr_zero(lanes),
                     fmt::format("{} is issued by {}: each of them issues it once more; let one "
                                 "thread do it (elect.sync)",
                                 warp.program().info[warp.index_of(op)].opcode, lane_list(lanes)),
                     true);
}

Step check_matrix(const Op& op, Warp& warp, int lane, const char* matrix, u64 bits, int lines,
                  bool mn_major, int element_bytes) {
  const tensor::DescriptorProblem problem =
      tensor::tcgen05_descriptor_problem(bits, lines, mn_major, element_bytes);
  if (problem.what.empty()) return Step::next;
  return warp.report(op, problem.alignment ? FindingKind::misaligned : FindingKind::misuse, lane,
                     fmt::format("the descriptor of {}, {:#x}, {}", matrix, bits, problem.what),
                     !problem.alignment);
}

Step check_pair(const Op& op, Warp& warp, u32 blocks) {
  const u32 others = warp.block().launch().shape.cluster_blocks();
  if (blocks == 1 || others % 2 == 0) return Step::next;
  return warp.report(
      op, FindingKind::misuse, 0,
      fmt::format(".cta_group::2 is for pairs of blocks; the cluster has {}", others), true);
}

namespace {

// ---- allocation: op.a, op.mode and op.value the address where the answer goes; op.b the number of
// columns; op.extra .cta_group

Step allocate(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  ClusterMemory& memory = warp.block().memory();
  const Agent agent = warp.agent(op);
  u32 columns = 0;
  if (!same_in_warp(op, warp, op.b, lanes, "the number of columns", columns)) return Step::stop;
  if (!TensorMemory::valid(columns))
    return warp.report(op, FindingKind::misuse, 0,
                       fmt::format("allocates {} columns of tensor memory; it must be a power of "
                                   "two, 32 to 512",
                                   columns),
                       true);
  if (memory.tensor(agent.rank).relinquished)
    return warp.report(op, FindingKind::misuse, 0,
                       "allocates tensor memory behind a tcgen05.relinquish_alloc_permit of the "
                       "block",
                       true);
  if (const Step step = check_pair(op, warp, op.extra); step != Step::next) return step;
  const auto column = memory.tensor_allocate(agent, columns, op.extra == 2);
  if (!column) return Step::wait;
  const int lane = std::countr_zero(lanes);
  const u64 address = mbarrier_address(op, warp, lane);
  memory.write_row(agent, lane, address, 4, &*column);
  return Step::next;
}

/// op.a the address in tensor memory.
Step give_back(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  u32 columns = 0, bits = 0;
  if (!same_in_warp(op, warp, op.b, lanes, "the number of columns", columns) ||
      !same_in_warp(op, warp, op.a, lanes, "the tensor memory address", bits))
    return Step::stop;
  const TensorAddress at(bits);
  if (at.lane != 0 || !TensorMemory::valid(columns))
    return warp.report(op, FindingKind::misuse, 0,
                       fmt::format("gives back {} columns of tensor memory at {:#x}; it must be "
                                   "what tcgen05.alloc gave, of lane 0",
                                   columns, bits),
                       true);
  return warp.block().memory().tensor_free(warp.agent(op), at.column, columns) ? Step::next
                                                                               : Step::stop;
}

Step relinquish(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  warp.block().memory().tensor(warp.block().rank()).relinquished = true;
  return Step::next;
}

/// op.mode: before_thread_sync, else after.
Step fence(const Op& op, Warp& warp, u32) {
  warp.block().memory().tensor_fence(warp.agent(op), op.mode);
  return Step::next;
}

// ---- loads and stores: op.a and op.value the address, op.mode the shape, op.extra how many
// registers op.list has, op.b columns between the halves of 16x32bx2

/// Where this warp may touch tensor memory, and does; false after a finding.
bool window_of(const Op& op, Warp& warp, u32 lanes, TensorAddress& at) {
  u32 bits = 0;
  if (!same_in_warp(op, warp, op.a, lanes, "the tensor memory address", bits)) return false;
  at = TensorAddress(bits + static_cast<u32>(op.value));
  const auto shape = static_cast<tensor::TensorShape>(op.mode);
  const u32 first = 32 * (warp.index() % 4);
  const bool half = lanes_of(shape) == 16 && at.lane == first + 16;
  if (at.lane == first || half) return true;
  warp.report(op, FindingKind::misuse, 0,
              fmt::format("touches lane {} of tensor memory; warp {} has lanes {}-{}{}", at.lane,
                          warp.index(), first, first + 31,
                          lanes_of(shape) == 16 ? ", and begins at the first or at the 17th"
                                                : ", and begins at the first"),
              true);
  return false;
}

/// The rectangles of all registers: one, or for 16x32bx2 the two halves.
std::vector<TensorPart> parts_of(const Op& op, const TensorAddress& at) {
  const auto shape = static_cast<tensor::TensorShape>(op.mode);
  const u32 columns =
      op.extra / static_cast<u32>(registers_of(shape)) * static_cast<u32>(columns_of(shape));
  const auto lanes = static_cast<u32>(lanes_of(shape));
  std::vector<TensorPart> parts{{at.lane, lanes, at.column, columns}};
  if (shape == tensor::TensorShape::lanes16x32bx2)
    parts.push_back({at.lane, lanes, at.column + op.b, columns});
  return parts;
}

/// The lanes of register `reg` whose words were never written become undefined. Whether there are
/// some.
bool note_unwritten(const Op& op, Warp& warp, u32 reg, u32 lanes, const TensorAddress& at) {
  ClusterMemory& memory = warp.block().memory();
  const auto shape = static_cast<tensor::TensorShape>(op.mode);
  UndefinedBytes undefined;
  for (u32 left = lanes; left; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const tensor::TensorPlace place = tensor_place(shape, static_cast<u32>(lane), reg, op.b);
    const TensorPart word{at.lane + place.lane, 1, at.column + place.column, 1};
    if (memory.tensor_written(warp.block().rank(), word)) continue;
    if (undefined.lanes == 0) {
      undefined.lane = lane;
      undefined.message = fmt::format(
          "tcgen05.ld loads lane {}, column {} of tensor memory, which was never written since it "
          "was allocated",
          word.lane, word.column);
      undefined.address = tensor_window | 4 * TensorMemory::word_of(word.lane, word.column);
    }
    undefined.add(lane, 0);
  }
  warp.became_undefined(op, op.list[reg], undefined.lanes, undefined);
  return undefined.lanes != 0;
}

template <bool Loads>
Step move(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  TensorAddress at(0);
  if (!window_of(op, warp, lanes, at)) return Step::stop;
  ClusterMemory& memory = warp.block().memory();
  const Agent agent = warp.agent(op);
  const auto kind = Loads ? AsyncKind::tensor_load : AsyncKind::tensor_store;
  const std::vector<TensorPart> parts = parts_of(op, at);
  for (const TensorPart& part : parts)
    if (!memory.tensor_touch(agent, 0, agent.rank, part, kind, Loads ? Mode::read : Mode::write,
                             Loads ? nullptr : "what it stores"))
      return Step::stop;
  TensorMemory& words = memory.tensor(agent.rank);
  const auto shape = static_cast<tensor::TensorShape>(op.mode);
  for (u32 reg = 0; reg < op.extra; ++reg) {
    u32* row = warp.row32(op.list[reg]);
    for (u32 left = lanes; left; left &= left - 1) {
      const auto lane = static_cast<u32>(std::countr_zero(left));
      const tensor::TensorPlace place = tensor_place(shape, lane, reg, op.b);
      const u32 word = TensorMemory::word_of(at.lane + place.lane, at.column + place.column);
      if (Loads)
        row[lane] = words.visible()[word];
      else
        words.pipeline()[word] = row[lane];
    }
  }
  if (!Loads) {
    memory.tensor_launch(agent, agent.rank, parts, kind);
    return Step::next;
  }
  bool undefined = false;
  const bool written = std::all_of(parts.begin(), parts.end(), [&](const TensorPart& part) {
    return memory.tensor_written(agent.rank, part);
  });
  for (u32 reg = 0; !written && reg < op.extra; ++reg)
    undefined |= note_unwritten(op, warp, reg, lanes, at);
  const LaunchState& launch = warp.block().launch();
  const auto hazard = warp.flight().load(warp.index_of(op), warp.program().info[warp.index_of(op)],
                                         warp, launch.memory.options.policy == AsyncPolicy::eager);
  if (hazard && warp.block().checks_races()) warp.report_hazard(op, *hazard);
  return undefined ? warp.carry_on() : Step::next;
}

/// op.mode: of loads, else of stores.
Step wait_for_moves(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  warp.block().memory().tensor_wait(warp.agent(op), op.mode);
  if (op.mode) warp.flight().end_loads(warp);
  return Step::next;
}

// ---- copies from shared memory: op.a and op.value the address, op.b the descriptor, op.mode the
// shape, op.extra .cta_group

Step copy(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = one_lane(op, warp, lanes); step != Step::next) return step;
  if (const Step step = check_pair(op, warp, op.extra); step != Step::next) return step;
  const int lane = std::countr_zero(lanes);
  const auto shape = static_cast<tensor::CopyShape>(op.mode);
  const TensorAddress at(warp.row32(op.a)[lane] + static_cast<u32>(op.value));
  const u64 bits = warp.row64(op.b)[lane];
  if (at.lane != 0)
    return warp.report(op, FindingKind::misuse, lane,
                       fmt::format("copies to lane {} of tensor memory; it must be 0", at.lane),
                       true);
  if (const Step step =
          check_matrix(op, warp, lane, "what it copies", bits, rows_of(shape), false, 1);
      step != Step::next)
    return step;
  ClusterMemory& memory = warp.block().memory();
  const Agent agent = warp.agent(op);
  const auto row_words = static_cast<u32>(row_bytes_of(shape) / 4);
  for (const u32 rank : blocks_of(op.extra, agent.rank)) {
    std::vector<TensorPart> parts;
    for (u32 group = 0; group < 4; ++group) {
      bool used = false;
      for (int rows = 0; rows < rows_of(shape) / 32; ++rows)
        used |= groups_of(shape, rows) >> group & 1;
      if (used) parts.push_back({32 * group, 32, at.column, row_words});
    }
    for (const TensorPart& part : parts)
      if (!memory.tensor_touch(agent, lane, rank, part, AsyncKind::tcgen05, Mode::write,
                               "what it copies"))
        return Step::stop;
    const tensor::MatrixDescriptor from = tensor::tcgen05_descriptor(bits);
    u32* words = memory.tensor(rank).pipeline();
    for (u32 row = 0; row < static_cast<u32>(rows_of(shape)); ++row) {
      std::uint8_t bytes[32];
      for (u32 chunk = 0; chunk < row_words / 4; ++chunk)
        if (!memory.tensor_operand(agent, lane,
                                   shared_of(agent, rank, k_major_chunk(from, row, chunk)),
                                   bytes + 16 * chunk))
          return Step::stop;
      for (u32 group = 0; group < 4; ++group)
        if (groups_of(shape, static_cast<int>(row / 32)) >> group & 1)
          std::memcpy(words + TensorMemory::word_of(32 * group + row % 32, at.column), bytes,
                      std::size_t{4} * row_words);
    }
    memory.tensor_launch(agent, rank, parts, AsyncKind::tcgen05);
  }
  return Step::next;
}

/// op.a, op.mode and op.value the mbarrier's address; with op.mode bit 3 op.b is a mask of blocks
/// of the cluster, each with an mbarrier at the same place.
Step commit(const Op& op, Warp& warp, u32 lanes) {
  ClusterMemory& memory = warp.block().memory();
  const Agent agent = warp.agent(op);
  for (u32 left = lanes; left; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const u64 address = mbarrier_address(op, warp, lane);
    if (!(op.mode & 8)) {
      memory.tensor_commit(agent, lane, address);
      continue;
    }
    for (u32 blocks = warp.row32(op.b)[lane] & 0xFFFFu; blocks; blocks &= blocks - 1)
      memory.tensor_commit(agent, lane,
                           cluster_shared(static_cast<u32>(std::countr_zero(blocks)), address));
  }
  memory.tensor_commit_end(agent);
  return Step::next;
}

}  // namespace

Family tcgen05_family() {
  static constexpr HandlerEntry entries[] = {
      {"tcgen05.alloc", allocate},        {"tcgen05.dealloc", give_back},
      {"tcgen05.relinquish", relinquish}, {"tcgen05.fence", fence},
      {"tcgen05.ld", move<true>},         {"tcgen05.st", move<false>},
      {"tcgen05.wait", wait_for_moves},   {"tcgen05.cp", copy},
      {"tcgen05.commit", commit},         {"tcgen05.mma", tcgen05_multiply},
  };
  return entries;
}

}  // namespace microscale::emulator
