// Tensor memory as the warps of a cluster use it: allocation, who may touch what when, fences,
// waits and commits of tcgen05.
#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {
namespace {

constexpr std::size_t index_of(AsyncKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

Region ClusterMemory::tensor_region(std::uint32_t rank) {
  TensorMemory& memory = tensors_[rank];
  return {SpaceKind::tensor,
          tensor_window,
          TensorMemory::bytes,
          reinterpret_cast<std::uint8_t*>(memory.pipeline()),
          &memory.shadow(),
          tag_,
          &log_};
}

std::optional<std::uint32_t> ClusterMemory::tensor_allocate(const Agent& agent,
                                                            std::uint32_t columns, bool pair) {
  // No kernel may count on the columns that it gets.
  const bool high = launch_.options.policy != AsyncPolicy::eager;
  TensorMemory& own = tensors_[agent.rank];
  if (!pair) {
    const std::optional<std::uint32_t> column = own.allocate(columns, high, agent);
    if (column) ++writes_;
    return column;
  }
  if (own.granted) return std::exchange(own.granted, std::nullopt);
  TensorMemory& other = tensors_[agent.rank ^ 1];
  own.asked = columns;
  if (!other.asked) return std::nullopt;
  if (*other.asked != columns) {
    reporter_.say(FindingKind::misuse, agent, 0, true, [&] {
      return fmt::format(
          "allocates {} columns of tensor memory, and the other block of the pair {}", columns,
          *other.asked);
    });
    return 0;  // the launch ends
  }
  // A column may be free in one block and not yet in the other.
  const std::optional<std::uint32_t> column = own.allocate(columns, high, agent, &other);
  if (!column) return std::nullopt;
  other.granted = column;
  own.asked.reset(), other.asked.reset();
  ++writes_;
  return column;
}

bool ClusterMemory::tensor_free(const Agent& agent, std::uint32_t column, std::uint32_t columns) {
  TensorMemory& memory = tensors_[agent.rank];
  const TensorAllocation* found = memory.find(column);
  if (!found || found->columns != columns) {
    reporter_.say(FindingKind::misuse, agent, 0, true, [&] {
      return found ? fmt::format(
                         "gives back {} columns of tensor memory from column {} on, where "
                         "tcgen05.alloc gave {}",
                         columns, column, found->columns)
                   : fmt::format(
                         "gives back {} columns of tensor memory from column {} on, where "
                         "no allocation begins",
                         columns, column);
    });
    return false;
  }
  Toucher who = toucher(agent);
  const Region region = tensor_region(agent.rank);
  for (std::uint32_t lane = 0; launch_.options.races && lane < TensorMemory::lanes; ++lane)
    touch(who, region, std::uint64_t{4} * TensorMemory::word_of(lane, column),
          std::uint64_t{4} * columns, {0, 0}, Mode::write, nullptr,
          [](std::uint8_t*, std::uint64_t, std::uint64_t) {});
  memory.free(column);
  ++writes_;
  return true;
}

void ClusterMemory::report_leaks(std::uint32_t rank) {
  for (const TensorAllocation& each : tensors_[rank].allocations())
    reporter_.say(FindingKind::misuse, each.owner, 0, false, [&] {
      return fmt::format(
          "{} columns of tensor memory from column {} on, which warp {} allocated, "
          "are still allocated when the block ends: tcgen05.dealloc is missing",
          each.columns, each.column, each.owner.warp);
    });
}

void ClusterMemory::tensor_fence(const Agent& agent, bool before) {
  WarpMemory& warp = warp_of(agent);
  if (!before) return warp.tensor_after.join(warp.know.tensor);
  // What was begun keeps its place before what others begin behind the fence; loads and stores are
  // done, as far as they were waited for.
  std::uint32_t& begun = warp.committed[index_of(AsyncKind::tcgen05)];
  warp.know.tensor.set(slot_of(warp, AsyncKind::tcgen05), ++begun);
  for (const AsyncKind kind : {AsyncKind::tensor_load, AsyncKind::tensor_store}) {
    const std::uint32_t slot = slot_of(warp, kind);
    if (const std::uint32_t done = warp.know.clock[slot]) warp.know.tensor.set(slot, done);
  }
}

void ClusterMemory::tensor_wait(const Agent& agent, bool loads) {
  const AsyncKind kind = loads ? AsyncKind::tensor_load : AsyncKind::tensor_store;
  commit(agent, kind);
  wait(agent, kind, 0);
}

bool ClusterMemory::tensor_operand(const Agent& agent, int lane, std::uint64_t address,
                                   std::uint8_t* to) {
  WarpMemory& warp = warp_of(agent);
  Toucher reads = toucher(agent);
  reads.asynchronous = true;
  reads.slot = slot_of(warp, AsyncKind::tcgen05);
  reads.time = warp.committed[index_of(AsyncKind::tcgen05)] + 1;
  reads.unit = Unit::tcgen05;
  return move_row(reads, lane, address, 16, Mode::read, to, nullptr);
}

bool ClusterMemory::tensor_touch(const Agent& agent, int lane, std::uint32_t rank,
                                 const TensorPart& part, AsyncKind kind, Mode mode,
                                 const char* what) {
  TensorMemory& memory = tensors_[rank];
  if (part.lane + part.lanes > TensorMemory::lanes || !memory.holds(part.column, part.columns)) {
    reporter_.say(
        FindingKind::out_of_bounds, agent, lane, true,
        [&] {
          return fmt::format(
              "{} of warp {} {} {}lanes {}-{}, columns {}-{} of tensor memory, which are not all "
              "allocated",
              reporter_.opcode(agent.instruction), agent.warp, verb(mode),
              what ? fmt::format("{}: ", what) : "", part.lane, part.lane + part.lanes - 1,
              part.column, part.column + part.columns - 1);
        },
        tensor_window | 4 * TensorMemory::word_of(part.lane % TensorMemory::lanes, part.column),
        verb(mode));
    return false;
  }
  WarpMemory& warp = warp_of(agent);
  Toucher who = toucher(agent);
  who.asynchronous = true;
  who.slot = slot_of(warp, kind);
  who.time = warp.committed[index_of(kind)] + 1;
  who.unit = kind == AsyncKind::tcgen05 ? Unit::tcgen05 : Unit::tensor_move;
  if (kind == AsyncKind::tcgen05) warp.tensor_lanes |= 1u << lane;
  const Region region = tensor_region(rank);
  const std::uint64_t bytes = std::uint64_t{4} * part.columns;
  UndefinedBytes told_elsewhere;
  if (!what) reporter_.undefined = &told_elsewhere;
  for (std::uint32_t row = part.lane; row < part.lane + part.lanes; ++row) {
    const std::uint64_t offset = std::uint64_t{4} * TensorMemory::word_of(row, part.column);
    if (mode != Mode::write && what) {  // a row lies in one page
      ShadowPage& page = region.shadow->page(offset);
      const auto start = static_cast<std::uint32_t>(offset % ShadowPage::bytes);
      const auto count = static_cast<std::uint32_t>(bytes);
      if (!page.all_written(start, count)) {
        const std::uint32_t column = (page.first_unwritten(start, count) - start) / 4 + part.column;
        reporter_.say(
            FindingKind::uninitialised_memory, agent, lane, false,
            [&] {
              return fmt::format(
                  "{} reads {} at lane {}, column {} of tensor memory, which was "
                  "never written since it was allocated",
                  reporter_.opcode(agent.instruction), what, row, column);
            },
            tensor_window | offset, verb(mode));
        page.mark_written(start, count);
      }
    }
    touch(who, region, offset, bytes, {row % warp_lanes, 0}, mode, nullptr,
          [](std::uint8_t*, std::uint64_t, std::uint64_t) {});
  }
  reporter_.undefined = nullptr;
  return true;
}

bool ClusterMemory::tensor_written(std::uint32_t rank, const TensorPart& part) {
  Shadow& shadow = tensors_[rank].shadow();
  for (std::uint32_t row = part.lane; row < part.lane + part.lanes; ++row) {
    const std::uint64_t offset = std::uint64_t{4} * TensorMemory::word_of(row, part.column);
    if (!shadow.page(offset).all_written(static_cast<std::uint32_t>(offset % ShadowPage::bytes),
                                         4 * part.columns))
      return false;
  }
  return true;
}

void ClusterMemory::tensor_launch(const Agent& agent, std::uint32_t rank,
                                  std::span<const TensorPart> parts, AsyncKind kind) {
  WarpMemory& warp = warp_of(agent);
  TensorMemory& memory = tensors_[rank];
  AsyncCopy copy;
  copy.kind = kind;
  copy.warp = warp.slot;
  copy.issuer = agent;
  copy.sequence = ++sequence_;
  copy.group = warp.committed[index_of(kind)] + 1;
  for (const TensorPart& part : parts)
    for (std::uint32_t row = part.lane; row < part.lane + part.lanes; ++row) {
      const std::uint32_t word = TensorMemory::word_of(row, part.column);
      const auto* from = reinterpret_cast<const std::uint8_t*>(memory.pipeline() + word);
      copy.pieces.push_back({reinterpret_cast<std::uint8_t*>(memory.visible() + word),
                             static_cast<std::uint32_t>(copy.data.size()), 4 * part.columns});
      copy.data.insert(copy.data.end(), from, from + std::size_t{4} * part.columns);
    }
  launch_copy(agent, std::move(copy));
}

void ClusterMemory::tensor_commit(const Agent& agent, int lane, std::uint64_t mbarrier) {
  Barrier* barrier = barrier_at(agent, lane, mbarrier, "names for a tcgen05.commit");
  if (!barrier) return;
  WarpMemory& warp = warp_of(agent);
  if (warp.tensor_lanes && !(warp.tensor_lanes >> lane & 1))
    reporter_.say(FindingKind::misuse, agent, lane, false, [&] {
      return fmt::format(
          "lane {} commits, and lane {} has begun the products and copies of the warp: a commit "
          "tells of its own thread's work only",
          lane, std::countr_zero(warp.tensor_lanes));
    });
  AsyncCopy copy;
  copy.kind = AsyncKind::tcgen05;
  copy.warp = warp.slot;
  copy.issuer = agent;
  copy.sequence = ++sequence_;
  copy.group = warp.committed[index_of(AsyncKind::tcgen05)] + 1;
  copy.barrier = barrier->key;
  copy.arrive = true;
  // Who waits there knows that the work is done, and what its issuer had waited for when it began
  // it; but not what the issuer itself has stored, which no commit releases.
  const std::uint32_t slot = slot_of(warp, AsyncKind::tcgen05);
  auto known = std::make_unique<Knowledge>(warp.know);
  known->clock.forget(warp.slot);
  known->seen.clear();
  known->clock.set(slot, copy.group);
  known->tensor.set(slot, copy.group);
  copy.known = std::move(known);
  launch_copy(agent, std::move(copy));
}

void ClusterMemory::tensor_commit_end(const Agent& agent) { commit(agent, AsyncKind::tcgen05); }

}  // namespace microscale::emulator
