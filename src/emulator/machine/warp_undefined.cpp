// A warp that has undefined values: which registers hold them, in which lanes, since when.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "emulator/machine/block.hpp"
#include "emulator/memory/undefined_bytes.hpp"

namespace microscale::emulator {

/// Whether the running instruction reads a register, but for its guard, that some of `lanes` never
/// wrote.
bool Warp::reads_undefined(std::uint32_t lanes) const {
  const OpInfo& info = program_->info[active_.pc];
  for (std::size_t i = info.guard_reads; i < info.reads.size(); ++i)
    if (lanes & ~written_[info.reads[i]]) return true;
  return false;
}

/// From here on the written masks of all registers are kept; those that were not are of registers
/// that are written before they are read.
void Warp::begin_undefined() {
  if (undefined_) return;
  undefined_ = std::make_unique<UndefinedValues>(program_->register_count);
  for (std::uint32_t reg = 0; reg < program_->register_count; ++reg)
    if (!program_->tracked[reg]) written_[reg] = ~0u;
}

/// The lanes for which what `op` computes is undefined, with an origin of that; what must be
/// defined and is not is told of.
std::uint32_t Warp::undefined_lanes(const Op& op, std::uint32_t lanes, std::uint32_t& origin) {
  const std::uint32_t pc = index_of(op);
  const OpInfo& info = program_->info[pc];
  const std::size_t guards = op.guard != always;
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < info.sources.size(); ++i) {
    const std::uint32_t reg = info.sources[i];
    const std::uint32_t missing = (i < guards ? active_.lanes : lanes) & ~written_[reg];
    if (!missing) continue;
    std::uint32_t& from = undefined_->of(reg);
    if (from == UndefinedValues::none) {
      const ProgramFunction& function = program_->functions[info.function];
      from = undefined_->origin(
          FindingKind::uninitialised_register, pc, std::countr_zero(missing), [&] {
            return fmt::format("{} reads register {}, which {} never wrote", info.opcode,
                               function.registers[reg - function.first_register],
                               lane_list(missing));
          });
    }
    if (i < guards || (op.flags & decides)) {
      tell_undefined(op, from);
      written_[reg] |= missing;
    } else {
      found |= missing;
      origin = from;
    }
  }
  return found & ~unselected(op, lanes);
}

/// Of selp: the lanes that take the value of a defined register, or a constant, by a defined
/// predicate.
std::uint32_t Warp::unselected(const Op& op, std::uint32_t lanes) const {
  const OpInfo& info = program_->info[index_of(op)];
  if (info.opcode != "selp") return 0;
  const ProgramFunction& function = program_->functions[info.function];
  const std::size_t guards = op.guard != always;
  std::uint32_t first = ~0u, second = ~0u, chooser = ~0u;  // defined lanes
  for (std::size_t i = guards; i < info.sources.size(); ++i) {
    const std::uint32_t reg = info.sources[i], slot = function.slots[reg - function.first_register];
    if (function.bits[reg - function.first_register] == 1) {
      chooser &= written_[reg];
      continue;
    }
    if (slot == op.a) first &= written_[reg];
    if (slot == op.b) second &= written_[reg];
  }
  const std::uint32_t takes_first = predicate(op, op.c, 1);
  return lanes & chooser & ((takes_first & first) | (~takes_first & second));
}

void Warp::tell_undefined(const Op& op, std::uint32_t number) {
  UndefinedOrigin& origin = (*undefined_)[number];
  if (origin.told) return;
  origin.told = true;
  Agent where = agent(op);
  where.instruction = origin.instruction;
  Finding finding = block_->places().at(where, origin.lane);
  finding.kind = origin.kind;
  finding.message = origin.message;
  finding.address = origin.address;
  if (origin.address) finding.access = "reads";
  const std::uint32_t pc = index_of(op);
  if (pc != origin.instruction)
    finding.message += fmt::format("; {} at {} depends on it", program_->info[pc].opcode,
                                   block_->places().name(pc));
  block_->sink().add(std::move(finding), false);
}

Step Warp::run_undefined(const Op& op, std::uint32_t lanes) {
  std::uint32_t origin = UndefinedValues::none;
  const std::uint32_t found = undefined_lanes(op, lanes, origin);
  if (op.flags & touches_matrix) check_hazards(op, lanes);
  if (!lanes) return Step::next;
  const OpInfo& info = program_->info[index_of(op)];
  const auto mark = [&] {
    for (const std::uint32_t reg : info.writes) {
      written_[reg] = (written_[reg] | lanes) & ~found;
      if (found) undefined_->of(reg) = origin;
    }
  };
  if (info.late_reads == 0) mark();
  const Step step = op.run(op, *this, lanes);
  if (info.late_reads != 0 && step != Step::wait) mark();
  return step;
}

/// The register that an operation writes at a row; none if it writes none there.
std::uint32_t Warp::register_at(const Op& op, Slot slot) const {
  const OpInfo& info = program_->info[index_of(op)];
  const ProgramFunction& function = program_->functions[info.function];
  for (const std::uint32_t reg : info.writes) {
    const std::size_t i = reg - function.first_register;
    if (function.bits[i] == 1) continue;
    if (function.slots[i] == slot ||
        (function.bits[i] == 128 && function.slots[i] + row_bytes_64 == slot))
      return reg;
  }
  return UndefinedValues::none;
}

void Warp::became_undefined(const Op& op, Slot slot, std::uint32_t lanes,
                            const UndefinedBytes& bytes) {
  const std::uint32_t reg = register_at(op, slot);
  if (!lanes || reg == UndefinedValues::none) return;
  begin_undefined();
  undefined_->of(reg) = undefined_->origin(
      FindingKind::uninitialised_memory, index_of(op), bytes.lane, [&] { return bytes.message; },
      bytes.address);
  written_[reg] &= ~lanes;
}

}  // namespace microscale::emulator
