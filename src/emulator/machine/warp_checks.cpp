// What a warp asks about registers before an operation touches them: written ones, and those that
// wgmma has.
#include <fmt/format.h>

#include <bit>

#include "emulator/machine/block.hpp"
#include "emulator/machine/matrix_registers.hpp"

namespace microscale::emulator {

void Warp::check_registers(const Op& op, std::uint32_t lanes) {
  const OpInfo& info = program_->info[active_.pc];
  if (op.flags & checks_reads) check_reads(op, lanes, 0, info.reads.size() - info.late_reads);
  check_hazards(op, lanes);
}

void Warp::check_hazards(const Op& op, std::uint32_t lanes) {
  const OpInfo& info = program_->info[active_.pc];
  if (!(op.flags & touches_matrix) || !lanes || info.own_matrix || !block_->checks_races()) return;
  if (const auto hazard = flight_.touch(active_.pc, info)) report_hazard(op, *hazard);
}

void Warp::check_late_reads(const Op& op, std::uint32_t lanes) {
  const OpInfo& info = program_->info[index_of(op)];
  check_reads(op, lanes, info.reads.size() - info.late_reads, info.reads.size());
}

void Warp::check_reads(const Op& op, std::uint32_t lanes, std::size_t from, std::size_t to) {
  const OpInfo& info = program_->info[index_of(op)];
  for (std::size_t i = from; i < to; ++i) {
    const std::uint32_t reg = info.reads[i];
    const std::uint32_t missing = (i < info.guard_reads ? active_.lanes : lanes) & ~written_[reg];
    if (!missing) continue;
    written_[reg] |= missing;
    const ProgramFunction& function = program_->functions[info.function];
    report(op, FindingKind::uninitialised_register, std::countr_zero(missing),
           fmt::format("{} reads register {}, which {} never wrote", info.opcode,
                       function.registers[reg - function.first_register], lane_list(missing)));
  }
}

void Warp::report_hazard(const Op& op, const RegisterHazard& hazard) {
  const std::string& reg = name_of(*program_, program_->matrix_registers[hazard.index]);
  report(op, hazard.kind, std::countr_zero(live_),
         fmt::format("{} of warp {} {}", program_->info[index_of(op)].opcode, index_,
                     sentence(hazard, reg, block_->places().name(hazard.by))));
}

}  // namespace microscale::emulator
