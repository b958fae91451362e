// wgmma: the warps of a warpgroup come one by one; with the last of them a mma_async reads its
// matrices, and each warp's results wait for the launch's policy.
#include "emulator/ops/wgmma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/machine/block.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/matrix.hpp"
#include "emulator/ops/target.hpp"
#include "emulator/tensor/descriptor_check.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

AsyncPolicy policy_of(const Warp& warp) { return warp.block().launch().memory.options.policy; }

/// Results may come at any time before they are waited for.
void deliver_by_chance(Warp& warp) {
  if (policy_of(warp) == AsyncPolicy::random && warp.block().warpgroup(warp).coin())
    warp.flight().deliver(warp);
}

Step come(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  deliver_by_chance(warp);
  Warpgroup& group = warp.block().warpgroup(warp);
  WgmmaIssue* issue = nullptr;
  const Step step = group.arrive(warp, op, issue);
  group.retire();
  return step;
}

Step fence(const Op& op, Warp& warp, u32 lanes) {
  const Step step = come(op, warp, lanes);
  if (step == Step::next) warp.flight().fence();
  return step;
}

Step commit(const Op& op, Warp& warp, u32 lanes) {
  const Step step = come(op, warp, lanes);
  if (step != Step::next) return step;
  warp.flight().commit();
  warp.block().memory().commit(warp.agent(op), AsyncKind::wgmma);
  return step;
}

/// op.value: groups that may be on their way.
Step wait(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  Warpgroup& group = warp.block().warpgroup(warp);
  if (const Step step = group.arrive_to_wait(warp, op); step != Step::next) return step;
  const auto pending = static_cast<u32>(std::min<std::int64_t>(op.value, ~0u));
  if (const WgmmaIssue* left = group.incomplete(warp.flight().done_after(pending)))
    return warp.given_up() ? group.report_missing(warp, *left) : Step::wait;
  group.leave_wait(warp);
  deliver_by_chance(warp);
  warp.block().memory().wait(warp.agent(op), AsyncKind::wgmma, pending);
  warp.flight().wait(pending, warp);
  return Step::next;
}

/// A descriptor, which all lanes of `live` must give alike.
bool read_descriptor(const Op& op, Warp& warp, Slot slot, char matrix, u64& value) {
  const u64* row = warp.row64(slot);
  const u32 live = warp.live();
  const auto first = static_cast<std::size_t>(std::countr_zero(live));
  value = row[first];
  for (std::size_t lane = first; lane < warp_lanes; ++lane)
    if ((live >> lane & 1) && row[lane] != value) {
      warp.report(op, FindingKind::misuse, static_cast<int>(lane),
                  fmt::format("the descriptor of {} is {:#x} in lane {} and {:#x} in lane {}; all "
                              "threads of the warpgroup must have the same",
                              matrix, row[lane], lane, value, first),
                  true);
      return false;
    }
  return true;
}

/// Whether a descriptor says what can be; reports what cannot.
void check_descriptor(const Op& op, Warp& warp, char matrix, u64 bits, int lines, bool mn_major) {
  const tensor::DescriptorProblem problem = tensor::descriptor_problem(bits, lines, mn_major);
  if (problem.what.empty()) return;
  warp.report(op, problem.alignment ? FindingKind::misaligned : FindingKind::misuse, 0,
              fmt::format("the descriptor of {}, {:#x}, {}", matrix, bits, problem.what));
}

/// All four warps are here: the matrices are read, and the results await their delivery.
Step execute(const Op& op, Warpgroup& group, const WgmmaIssue& issue,
             const WgmmaInstruction& what) {
  Warp& leader = group.warp(0);
  ClusterMemory& memory = leader.block().memory();
  const Agent agent = leader.agent(op);
  const OpInfo& info = leader.program().info[leader.index_of(op)];
  const tensor::WgmmaShape& shape = what.shape;
  memory.begin_matrix(agent, issue.know, issue.group);
  bool inside = true;
  const auto read_tile = [&](char matrix, tensor::Operand type, int lines, u64 bits, bool mn_major,
                             tensor::WgmmaTile& tile) {
    check_descriptor(op, leader, matrix, bits, lines, mn_major);
    tensor::read_shared_tile(
        type, lines, shape.k(), tensor::wgmma_descriptor(bits), mn_major,
        [&](u32 address, std::uint8_t* bytes) {
          if (inside) inside = memory.read_matrix(agent, address, bytes);
          if (!inside) std::memset(bytes, 0, 16);
        },
        tile);
  };
  tensor::WgmmaTile a, b;
  if (what.a_in_registers) {
    const u32* rows[4 * Warpgroup::warps];
    for (u32 member = 0; member < Warpgroup::warps; ++member)
      for (u32 reg = 0; reg < 4; ++reg)
        rows[4 * member + reg] =
            group.warp(member).row32(op.list[static_cast<u32>(shape.d_registers()) + reg]);
    read_register_tile(shape, rows, a);
  } else {
    read_tile('A', shape.a, 64, issue.a, what.options.mn_major_a, a);
  }
  read_tile('B', shape.b, shape.n, issue.b, what.options.mn_major_b, b);
  if (!inside) return Step::stop;
  std::vector<u32*> d;
  for (u32 member = 0; member < Warpgroup::warps; ++member)
    group.warp(member).flight().compute(info, d);
  tensor::WgmmaOptions options = what.options;
  options.accumulate = issue.accumulate;
  wgmma(shape, options, a, b, d.data());
  if (policy_of(leader) == AsyncPolicy::eager)
    for (u32 member = 0; member < Warpgroup::warps; ++member)
      group.warp(member).flight().deliver(group.warp(member));
  return Step::next;
}

/// op.list: as WgmmaInstruction says; op.c: the predicate of scale-d.
Step multiply(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = gather_whole_warp(op, warp, lanes); step != Step::next) return step;
  const WgmmaInstruction what = WgmmaInstruction::unpack(op.value);
  const u32* slots = op.list + what.shape.d_registers();
  u64 a = 0, b = 0;
  if (!what.a_in_registers && !read_descriptor(op, warp, slots[0], 'A', a)) return Step::stop;
  if (!read_descriptor(op, warp, slots[what.a_in_registers ? 4 : 1], 'B', b)) return Step::stop;
  const u32 scale = warp.predicate(op, op.c, 1) & lanes;
  if (scale != 0 && scale != lanes)
    return warp.report(op, FindingKind::misuse, std::countr_zero(lanes & ~scale),
                       fmt::format("scale-d is true in {} and false in {}", lane_list(scale),
                                   lane_list(lanes & ~scale)),
                       true);
  deliver_by_chance(warp);
  if (scale) warp.check_late_reads(op, lanes);
  Warpgroup& group = warp.block().warpgroup(warp);
  WgmmaIssue* issue = nullptr;
  if (const Step step = group.arrive(warp, op, issue); step != Step::next) return step;
  const Knowledge& know = warp.block().memory().knowledge(warp.agent(op));
  if (issue->group == 0) {
    issue->group = warp.flight().open_group();
    issue->a = a, issue->b = b, issue->accumulate = scale != 0;
    issue->know = know;
  } else {
    if (issue->a != a || issue->b != b || issue->accumulate != (scale != 0))
      return warp.report(
          op, FindingKind::misuse, std::countr_zero(lanes),
          fmt::format("warp {} has another descriptor or scale-d than the warps of "
                      "its warpgroup before it: {:#x}, {:#x}, {}, not {:#x}, {:#x}, "
                      "{}",
                      warp.index(), a, b, scale != 0, issue->a, issue->b, issue->accumulate),
          true);
    issue->know.meet(know);
  }
  const OpInfo& info = warp.program().info[warp.index_of(op)];
  const auto hazard = warp.flight().issue(warp.index_of(op), info, what.accumulator_shape(), warp);
  if (hazard && warp.block().checks_races()) warp.report_hazard(op, *hazard);
  if (issue->arrived != (1u << Warpgroup::warps) - 1) return Step::next;
  const Step step = execute(op, group, *issue, what);
  group.retire();
  return step;
}

}  // namespace

std::int64_t WgmmaInstruction::pack() const {
  const auto field = [](auto value, int at) { return static_cast<std::int64_t>(value) << at; };
  return field(shape.n, 0) | field(shape.a, 12) | field(shape.b, 16) | field(shape.d, 20) |
         field(shape.saturate, 22) | field(options.negate_a, 23) | field(options.negate_b, 24) |
         field(options.mn_major_a, 25) | field(options.mn_major_b, 26) | field(a_in_registers, 27);
}

WgmmaInstruction WgmmaInstruction::unpack(std::int64_t value) {
  const auto field = [value](int at, int bits) {
    return static_cast<int>(value >> at & ((1 << bits) - 1));
  };
  WgmmaInstruction out;
  out.shape.n = field(0, 12);
  out.shape.a = static_cast<tensor::Operand>(field(12, 4));
  out.shape.b = static_cast<tensor::Operand>(field(16, 4));
  out.shape.d = static_cast<tensor::Result>(field(20, 2));
  out.shape.saturate = field(22, 1) != 0;
  out.options.negate_a = field(23, 1) != 0;
  out.options.negate_b = field(24, 1) != 0;
  out.options.mn_major_a = field(25, 1) != 0;
  out.options.mn_major_b = field(26, 1) != 0;
  out.a_in_registers = field(27, 1) != 0;
  return out;
}

Family wgmma_family() {
  static constexpr HandlerEntry entries[] = {{"wgmma.fence", fence},
                                             {"wgmma.commit", commit},
                                             {"wgmma.wait", wait},
                                             {"wgmma.mma", multiply}};
  return entries;
}

}  // namespace microscale::emulator
