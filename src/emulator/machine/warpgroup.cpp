#include "emulator/machine/warpgroup.hpp"

#include <fmt/format.h>

#include <bit>

#include "emulator/machine/block.hpp"

namespace microscale::emulator {
namespace {

/// "warp 3", "warps 1, 2".
std::string warp_list(std::uint32_t members, std::uint32_t first) {
  std::string text = std::popcount(members) == 1 ? "warp " : "warps ";
  for (std::uint32_t left = members; left; left &= left - 1)
    text += fmt::format("{}{}", left == members ? "" : ", ",
                        first + static_cast<std::uint32_t>(std::countr_zero(left)));
  return text;
}

}  // namespace

void Warpgroup::start(Block& block, std::uint32_t first, std::uint64_t seed) {
  block_ = &block;
  first_ = first;
  issues_.clear();
  retired_ = 0;
  waiting_ = 0;
  came_.fill(0);
  random_ = ((seed + 1) * 0x9e37'79b9'7f4a'7c15u ^ first) | 1;
}

bool Warpgroup::has(std::uint32_t member) const { return first_ + member < block_->warps().size(); }

Warp& Warpgroup::warp(std::uint32_t member) const { return block_->warps()[first_ + member]; }

bool Warpgroup::coin() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return (random_ >> 40 & 1) != 0;
}

Step Warpgroup::arrive(Warp& warp, const Op& op, WgmmaIssue*& issue) {
  const std::uint32_t member = warp.index() - first_;
  const std::uint64_t at = came_[member]++ - retired_;
  if (at == issues_.size()) {
    issues_.emplace_back();
    issues_.back().op = &op;
  }
  issue = &issues_[at];
  if (issue->op != &op) {
    const auto name = [&](const Op& each) {
      return warp.program().info[warp.index_of(each)].opcode;
    };
    return warp.report(op, FindingKind::divergent_aligned, 0,
                       fmt::format("{} of warp {} meets the {} at {} of {} of its warpgroup: all "
                                   "four warps must execute the same ones",
                                   name(op), warp.index(), name(*issue->op),
                                   block_->places().name(warp.index_of(*issue->op)),
                                   warp_list(issue->arrived, first_)),
                       true);
  }
  issue->arrived |= 1u << member;
  for (std::uint32_t other = 0; other < warps; ++other)
    if (!(issue->arrived >> other & 1) && (!has(other) || this->warp(other).live() == 0))
      return report_missing(warp, *issue);
  return Step::next;
}

Step Warpgroup::arrive_to_wait(Warp& warp, const Op& op) {
  const std::uint32_t bit = 1u << (warp.index() - first_);
  if (waiting_ & bit) return Step::next;
  waiting_ |= bit;
  WgmmaIssue* issue = nullptr;
  const Step step = arrive(warp, op, issue);
  retire();
  return step;
}

void Warpgroup::retire() {
  while (!issues_.empty() && issues_.front().arrived == (1u << warps) - 1) {
    issues_.pop_front();
    ++retired_;
  }
}

const WgmmaIssue* Warpgroup::incomplete(std::uint32_t done) const {
  for (const WgmmaIssue& issue : issues_)
    if (issue.group != 0 && issue.group <= done) return &issue;
  return nullptr;
}

Step Warpgroup::report_missing(Warp& warp, const WgmmaIssue& issue) {
  const Op& op = *issue.op;
  std::uint32_t never = 0, gone = 0, elsewhere = 0;
  for (std::uint32_t other = 0; other < warps; ++other) {
    if (issue.arrived >> other & 1) continue;
    (!has(other) ? never : this->warp(other).live() == 0 ? gone : elsewhere) |= 1u << other;
  }
  std::string missing;
  const auto add = [&](std::uint32_t members, const char* why) {
    if (members)
      missing +=
          fmt::format("{}{} {}", missing.empty() ? "" : "; ", warp_list(members, first_), why);
  };
  const bool one = std::popcount(never) == 1;
  add(never, one ? "is not in the block" : "are not in the block");
  add(gone, "ended without it");
  add(elsewhere, "never came");
  return warp.report(op, FindingKind::divergent_aligned, 0,
                     fmt::format("{} is for the four warps {} to {}: {}",
                                 warp.program().info[warp.index_of(op)].opcode, first_,
                                 first_ + warps - 1, missing),
                     true);
}

void Warpgroup::on_exit(Warp& warp) {
  if (warp.live() != 0) return;
  if (const auto hazard = warp.flight().unwaited(); hazard && block_->checks_races())
    warp.report(warp.program().code[hazard->by], FindingKind::missing_wait, 0,
                fmt::format("warp {} ends before the results of its wgmma.mma_async: no "
                            "wgmma.wait_group for it follows",
                            warp.index()));
  if (came_[warp.index() - first_] - retired_ >= issues_.size()) return;
  const WgmmaIssue& issue = issues_[came_[warp.index() - first_] - retired_];
  const auto member = static_cast<std::uint32_t>(std::countr_zero(issue.arrived));
  report_missing(this->warp(member), issue);
}

}  // namespace microscale::emulator
