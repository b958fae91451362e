// Instructions that lanes of a warp execute together: waiting for those that are not here yet, and
// saying who never comes.
#include <fmt/format.h>

#include <bit>
#include <utility>

#include "emulator/machine/block.hpp"
#include "emulator/machine/reachable.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/ops/barrier.hpp"

namespace microscale::emulator {

/// `lanes` end. Who waits for them at an instruction waits in vain, and if they have just executed
/// what comes behind it they have passed it by. Lanes that returned before are none of its
/// business.
void Warp::note_absent(std::uint32_t lanes) {
  for (Group& group : others_)
    if (group.state == Group::State::retry && (group.awaited & lanes & ~group.absent) &&
        reaches_work(*program_, group.pc, straight_from_, active_.pc))
      group.absent |= group.awaited & lanes;
}

Step Warp::gather(const Op& op, std::uint32_t mask, std::uint32_t lanes) {
  const std::uint32_t missing = mask & live_ & ~lanes;
  if (!missing) {
    report_absent(op, lanes, mask, std::exchange(active_.absent, 0));
    return Step::next;
  }
  if (!given_up()) {
    active_.awaited = missing;
    return Step::wait;
  }
  return report(op, FindingKind::divergent_aligned, std::countr_zero(lanes),
                fmt::format("{} executes without {} of its mask 0x{:08x}, which never come here",
                            program_->info[index_of(op)].opcode, lane_list(missing), mask));
}

void Warp::report_absent(const Op& op, std::uint32_t lanes, std::uint32_t mask,
                         std::uint32_t absent) {
  if (!absent) return;
  report(op, FindingKind::divergent_aligned, std::countr_zero(lanes),
         fmt::format("{} executes without {} of its mask 0x{:08x}, which passed it by and have "
                     "ended since; leave them out of the mask, or let them come here too",
                     program_->info[index_of(op)].opcode, lane_list(absent), mask | absent));
}

bool Warp::given_up() {
  if (!forced_) active_.gathers = true;
  return std::exchange(forced_, false);
}

bool Warp::force() {
  for (Group& group : others_)
    if (group.state == Group::State::retry && group.gathers) {
      forced_ = true;
      return true;
    }
  return forced_ = active_.lanes != 0 && active_.state == Group::State::retry && active_.gathers;
}

/// bar.warp.sync instructions at different places are one barrier when they name the same lanes.
bool Warp::release_warp_barrier() {
  for (Group& group : others_) {
    const Op& op = program_->code[group.pc];
    if (group.state != Group::State::retry || op.run != warp_barrier) continue;
    const std::uint32_t mask = warp_barrier_mask(*this, op, group.lanes);
    std::uint32_t here = 0;
    for (const Group& other : others_) {
      const Op& its = program_->code[other.pc];
      if (other.state == Group::State::retry && its.run == warp_barrier &&
          warp_barrier_mask(*this, its, other.lanes) == mask)
        here |= other.lanes;
    }
    if (mask & live_ & ~here) continue;
    std::uint32_t absent = 0;
    for (const Group& other : others_)
      if (other.lanes & here) absent |= other.absent;
    report_absent(op, group.lanes, mask, absent);
    for (Group& other : others_) {
      const Op& its = program_->code[other.pc];
      if (other.state != Group::State::retry || its.run != warp_barrier ||
          warp_barrier_mask(*this, its, other.lanes) != mask)
        continue;
      other.state = Group::State::ready;
      other.absent = 0;
      ++other.pc;
      ++executed_;
    }
    on_warp_barrier(*this, op);
    return true;
  }
  return false;
}

}  // namespace microscale::emulator
