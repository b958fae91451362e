// What kernels call that has no code in PTX: vprintf, __assertfail, malloc, free.
#include "emulator/ops/system_calls.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "emulator/machine/block.hpp"
#include "emulator/machine/kernel_printf.hpp"
#include "emulator/ops/families.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr std::size_t longest_string = 1 << 16;

// op.list: where the arguments are in a lane's call memory, then the result, if op.mode.
u64 argument(const Op& op, Warp& warp, int lane, int index, std::size_t bytes = 8) {
  u64 value = 0;
  std::memcpy(&value, warp.call_memory(lane) + op.list[index], bytes);
  return value;
}

void give(const Op& op, Warp& warp, int lane, u64 value, std::size_t bytes) {
  if (op.mode) std::memcpy(warp.call_memory(lane) + op.list[op.count - 1], &value, bytes);
}

// A string that ends in 0; false after a fatal finding.
bool read_string(const Op& op, Warp& warp, int lane, u64 address, std::string& to) {
  const Agent agent = warp.agent(op);
  for (to.clear(); to.size() < longest_string; ++address) {
    char each = 0;
    if (!warp.block().memory().read_row(agent, lane, address, 1, &each)) return false;
    if (each == 0) break;
    to += each;
  }
  return true;
}

Step print(const Op& op, Warp& warp, u32 lanes) {
  const Agent agent = warp.agent(op);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    std::string format;
    if (!read_string(op, warp, lane, argument(op, warp, lane, 0), format)) return Step::stop;
    const u64 buffer = argument(op, warp, lane, 1);
    const PrintfArguments arguments{[&](u64 offset, int bytes, void* to) {
                                      return warp.block().memory().read_row(
                                          agent, lane, buffer + offset, bytes, to);
                                    },
                                    [&](u64 address, std::string& to) {
                                      if (address == 0) return to = "(null)", true;
                                      return read_string(op, warp, lane, address, to);
                                    }};
    const Printed printed = print_formatted(format, arguments);
    warp.block().launch().printed.add(printed.text);
    if (!printed.readable) return Step::stop;
    give(op, warp, lane, static_cast<u32>(printed.count), 4);
  }
  return Step::next;
}

// (message, file, line, function, bytes of a character)
Step assert_fail(const Op& op, Warp& warp, u32 lanes) {
  const int lane = std::countr_zero(lanes);
  std::string said[3];
  const int texts[] = {0, 1, 3};
  for (int i = 0; i < 3; ++i)
    if (!read_string(op, warp, lane, argument(op, warp, lane, texts[i]), said[i]))
      return Step::stop;
  return warp.report(
      op, FindingKind::assertion, lane,
      fmt::format("assert({}) does not hold for {}, at {}:{} in {}", said[0], lane_list(lanes),
                  said[1], argument(op, warp, lane, 2, 4), said[2]),
      true);
}

Step allocate(const Op& op, Warp& warp, u32 lanes) {
  GlobalMemory& memory = warp.block().launch().memory.global;
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    give(op, warp, lane, memory.heap_allocate(argument(op, warp, lane, 0)), 8);
  }
  return Step::next;
}

Step release(const Op& op, Warp& warp, u32 lanes) {
  GlobalMemory& memory = warp.block().launch().memory.global;
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const u64 address = argument(op, warp, lane, 0);
    if (address == 0 || memory.heap_release(address)) continue;
    const Step step = warp.report(
        op, FindingKind::misuse, lane,
        fmt::format("free of {:#x}, which malloc did not return or which was freed before",
                    address),
        true);
    if (step != Step::next) return step;
  }
  return Step::next;
}

constexpr SystemFunction functions[] = {
    {"vprintf", "call.vprintf", {8, 8}, 2, 4},
    {"__assertfail", "call.assertfail", {8, 8, 4, 8, 8}, 5, 0},
    {"malloc", "call.malloc", {8}, 1, 8},
    {"free", "call.free", {8}, 1, 0},
};

}  // namespace

const SystemFunction* system_function(std::string_view name) {
  for (const SystemFunction& each : functions)
    if (each.name == name) return &each;
  return nullptr;
}

Family system_family() {
  static constexpr HandlerEntry entries[] = {
      {"call.vprintf", print},
      {"call.assertfail", assert_fail},
      {"call.malloc", allocate},
      {"call.free", release},
  };
  return entries;
}

}  // namespace microscale::emulator
