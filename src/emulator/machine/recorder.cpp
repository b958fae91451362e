#include "emulator/machine/recorder.hpp"

#include <utility>

namespace microscale::emulator {

Recorder::Recorder(const Program& program, const TraceRequest& request, Counters& counters)
    : program_(program), request_(request), counters_(counters) {
  counters.watch(request.block, request.warp);
  for (const ProgramFunction& function : program.functions)
    for (std::size_t i = 0; i < function.registers.size(); ++i) {
      names_.push_back({.name = function.registers[i], .bits = function.bits[i]});
      slots_.push_back(function.slots[i]);
    }
}

void Recorder::add(const WarpRows& warp, std::uint32_t instruction, std::uint32_t here,
                   std::uint32_t lanes) {
  if (++count_ > request_.most_steps) return;
  TraceStep step{.instruction = instruction,
                 .here = here,
                 .lanes = lanes,
                 .written = {},
                 .access = counters_.take_watched()};
  const auto keep = [&](std::uint32_t reg) {
    RegisterValues values{.index = reg, .lanes = std::vector<std::uint64_t>(warp_lanes)};
    for (std::size_t i = 0; i < warp_lanes; ++i) {
      const int bits = names_[reg].bits;
      values.lanes[i] = bits == 1    ? warp.predicates[slots_[reg]] >> i & 1
                        : bits >= 64 ? warp.row64(slots_[reg])[i]
                                     : warp.row32(slots_[reg])[i];
    }
    step.written.push_back(std::move(values));
  };
  const OpInfo& info = program_.info[instruction];
  if (lanes) {
    for (const std::uint32_t reg : info.writes) keep(reg);
    if (info.opcode == "wgmma.wait_group")  // which delivers
      for (const MatrixRegister& each : program_.matrix_registers)
        if (each.accumulates) keep(each.reg);
  }
  steps_.push_back(std::move(step));
}

void Recorder::add_turn(WarpTurn turn) {
  constexpr std::size_t most = 4000;
  if (turns_.size() < most) turns_.push_back(std::move(turn));
}

void Recorder::finish(LaunchReport& report) {
  report.registers = std::move(names_);
  report.trace = std::move(steps_);
  report.trace_steps = count_;
  report.timeline = std::move(turns_);
}

}  // namespace microscale::emulator
