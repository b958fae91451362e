// A profile made by hand: two source lines, a store with a stride, a shared load, one traced warp.
#pragma once

#include "profile/kernel_profile.hpp"

namespace microscale::testing {

inline ProfiledInstruction sample_instruction(std::uint32_t ptx_line, const std::string& text,
                                              InstructionClass which, std::uint32_t line,
                                              std::uint64_t warps) {
  ProfiledInstruction each;
  each.count.ptx_line = ptx_line;
  each.count.function = "k";
  each.count.warps = warps;
  each.count.lanes = 32 * warps;
  each.which = which;
  each.stores = which == InstructionClass::store_global;
  each.text = text;
  each.file = 1;
  each.line = line;
  return each;
}

inline KernelProfile sample_profile() {
  KernelProfile profile;
  profile.kernel = "k";
  profile.title = "k<int>(Args)";
  profile.ptx_name = "k.ptx";
  profile.target = "sm_90a";
  profile.launch = "2 blocks of 64 threads";
  profile.files = {{"folder/k.cu", {"first", "second <&>", "third"}}};
  profile.buffers = {{"out", 0x10000, 0x8000}};
  auto move = sample_instruction(10, "mov.u32 %r1, %tid.x;", InstructionClass::move, 1, 4);
  move.specials = {"%tid.x"};
  auto store =
      sample_instruction(11, "st.global.u32 [%rd1], %r1;", InstructionClass::store_global, 2, 4);
  store.count.global_requests = 4;
  store.count.sectors = 128;
  store.count.ideal_sectors = 16;
  store.count.sample = {
      .block = 0, .warp = 1, .lanes = ~0u, .bytes = 4, .shared = false, .address = {}};
  for (std::uint64_t i = 0; i < 32; ++i) store.count.sample.address[i] = 0x10000 + 1024 * i;
  auto load =
      sample_instruction(12, "ld.shared.u32 %r2, [%r3];", InstructionClass::load_shared, 2, 4);
  load.count.shared_requests = 4;
  load.count.bank_phases = 4;
  load.count.bank_conflicts = 4;
  load.count.sample = {
      .block = 0, .warp = 0, .lanes = ~0u, .bytes = 4, .shared = true, .address = {}};
  for (std::uint64_t i = 0; i < 32; ++i) load.count.sample.address[i] = 8 * i;
  auto end = sample_instruction(13, "(end)", InstructionClass::control, 0, 0);
  end.implied = true;
  end.file = 0;
  profile.instructions = {move, store, load, end};
  profile.report.warp_instructions = 12;
  profile.report.registers = {{"%r1", 32}, {"%p1", 1}};
  emulator::TraceStep step;
  step.instruction = 0;
  step.here = step.lanes = ~0u;
  std::vector<std::uint64_t> values(32);
  for (std::uint64_t i = 0; i < 32; ++i) values[i] = i;
  step.written = {{0, values}, {1, std::vector<std::uint64_t>(32, 1)}};
  profile.report.trace = {step};
  profile.report.trace_steps = 3;
  return profile;
}

}  // namespace microscale::testing
