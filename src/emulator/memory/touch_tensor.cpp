// What touch.cpp asks where the memory is tensor memory: which work of tcgen05 is done in the order
// of issue, what its fences order, and how a finding says it.
#include <fmt/format.h>

#include "emulator/memory/tensor_memory.hpp"
#include "emulator/memory/touch.hpp"

namespace microscale::emulator {
namespace {

std::string place_of(std::uint64_t address) {
  const std::uint64_t word = (address & ~window_mask) / 4;
  return fmt::format("lane {}, column {} of tensor memory", word / TensorMemory::columns,
                     word % TensorMemory::columns);
}

}  // namespace

/// Products, copies and shifts go through one pipeline: those of one warp in its order, those of
/// another behind fences. (PTX lists the pairs; that a copy may overwrite scales that an earlier
/// product reads is what every kernel with one set of scale columns relies on.)
bool Toucher::in_pipeline(const Record& other) const {
  if (unit != Unit::tcgen05 || other.unit != Unit::tcgen05) return false;
  return other.slot == slot || other.time <= warp.tensor_after[other.slot];
}

void Toucher::check_tensor_fences(const Piece& piece, const Record& other, std::uint32_t at) const {
  if (unit == Unit::none || other.domain != domain) return;
  if (other.block == agent.block && other.warp == agent.warp) return;
  const bool before = other.time <= warp.know.tensor[other.slot];
  if (before && other.time <= warp.tensor_after[other.slot]) return;
  const std::uint64_t address = piece.address + (std::uint64_t{at} << piece.shift);
  reporter.say(
      FindingKind::missing_fence, agent, static_cast<int>(piece.lane_of(at) % warp_lanes), false,
      [&] {
        return fmt::format(
            "{} of warp {} {} {}, which the {} of warp {} at {} {}: no tcgen05.fence::{} stands "
            "{} what orders the two threads",
            reporter.opcode(agent.instruction), agent.warp, verb(piece.mode), place_of(address),
            reporter.opcode(other.instruction), other.warp, reporter.name(other.instruction),
            other.write ? "wrote" : "read", before ? "after_thread_sync" : "before_thread_sync",
            before ? "behind" : "before");
      },
      address, verb(piece.mode));
}

void Toucher::report_tensor(const Piece& piece, const Record& other, std::uint32_t at) const {
  const std::uint64_t address = piece.address + (std::uint64_t{at} << piece.shift);
  reporter.say(
      FindingKind::missing_wait, agent, static_cast<int>(piece.lane_of(at) % warp_lanes), false,
      [&] {
        const char* waits = other.unit == Unit::tcgen05 ? "tcgen05.commit behind it was waited for"
                            : other.write               ? "tcgen05.wait::st"
                                                        : "tcgen05.wait::ld";
        const bool commits = other.unit == Unit::tcgen05;
        return fmt::format(
            "{} of warp {} {} {}, which the {} of warp {}, started at {}, {}: no {}{}",
            reporter.opcode(agent.instruction), agent.warp,
            unit == Unit::none ? "gives back" : verb(piece.mode), place_of(address),
            reporter.opcode(other.instruction), other.warp, reporter.name(other.instruction),
            other.write ? "writes" : "reads", waits, commits ? "" : " and barrier stand between");
      },
      address, verb(piece.mode));
}

}  // namespace microscale::emulator
