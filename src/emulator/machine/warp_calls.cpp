// Calls of functions and returns from them. A function has its registers and parameters once in a
// warp; what a call may overwrite, because it can come back to the caller, is kept meanwhile.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "emulator/machine/warp.hpp"

namespace microscale::emulator {
namespace {

// Of a lane: of what is kept, and of each call beside it.
constexpr std::size_t most_frame_bytes = 1 << 20, call_bytes = 16;

template <class Value>
void push(std::vector<std::uint8_t>& frame, const Value& value) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
  frame.insert(frame.end(), bytes, bytes + sizeof value);
}

template <class Value>
Value pop(std::vector<std::uint8_t>& frame) {
  Value value;
  std::memcpy(&value, frame.data() + frame.size() - sizeof value, sizeof value);
  frame.resize(frame.size() - sizeof value);
  return value;
}

}  // namespace

void Warp::keep_frame(const ProgramFunction& function, int lane) {
  std::vector<std::uint8_t>& frame = frames_[static_cast<std::size_t>(lane)];
  for (std::size_t i = 0; i < function.slots.size(); ++i) {
    const std::uint32_t slot = function.slots[i],
                        reg = function.first_register + static_cast<std::uint32_t>(i);
    if (function.bits[i] == 1) {
      push(frame, static_cast<std::uint8_t>(predicates[slot] >> lane & 1));
    } else if (function.bits[i] <= 32) {
      push(frame, row32(slot)[lane]);
    } else {
      push(frame, row64(slot)[lane]);
      if (function.bits[i] == 128) push(frame, row64(slot + row_bytes_64)[lane]);
    }
    push(frame, static_cast<std::uint8_t>(written_[reg] >> lane & 1));
  }
  const std::uint8_t* memory = call_memory(lane);
  frame.insert(frame.end(), memory + function.call_begin, memory + function.call_end);
}

void Warp::restore_frame(const ProgramFunction& function, int lane) {
  std::vector<std::uint8_t>& frame = frames_[static_cast<std::size_t>(lane)];
  const std::size_t bytes = function.call_end - function.call_begin;
  std::memcpy(call_memory(lane) + function.call_begin, frame.data() + frame.size() - bytes, bytes);
  frame.resize(frame.size() - bytes);
  const std::uint32_t bit = 1u << lane;
  const auto put = [bit](std::uint32_t& mask, bool set) { mask = set ? mask | bit : mask & ~bit; };
  for (std::size_t i = function.slots.size(); i-- > 0;) {
    const std::uint32_t slot = function.slots[i],
                        reg = function.first_register + static_cast<std::uint32_t>(i);
    put(written_[reg], pop<std::uint8_t>(frame));
    if (function.bits[i] == 1) {
      put(predicates[slot], pop<std::uint8_t>(frame));
    } else if (function.bits[i] <= 32) {
      row32(slot)[lane] = pop<std::uint32_t>(frame);
    } else {
      if (function.bits[i] == 128) row64(slot + row_bytes_64)[lane] = pop<std::uint64_t>(frame);
      row64(slot)[lane] = pop<std::uint64_t>(frame);
    }
  }
}

void Warp::stay_behind(std::uint32_t lanes) {
  Group stays = active_;
  stays.lanes = lanes;
  others_.push_back(std::move(stays));
  active_.lanes &= ~lanes;
}

Step Warp::call(const Op& op, std::uint32_t site, std::uint32_t lanes) {
  const CallSite& place = program_->calls[site];
  if (place.keeps >= 0 && frames_.empty()) frames_.resize(warp_lanes);
  for (std::uint32_t rest = lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (place.keeps >= 0) {
      const ProgramFunction& caller = program_->functions[static_cast<std::size_t>(place.keeps)];
      if (frames_[static_cast<std::size_t>(lane)].size() + call_bytes * active_.calls.size() >
          most_frame_bytes)
        return report(
            op, FindingKind::misuse, lane,
            fmt::format("{} calls itself {} times: a GPU's stack has overflowed long before",
                        caller.name, active_.calls.size()),
            true);
      keep_frame(caller, lane);
    }
    std::uint8_t* memory = call_memory(lane);
    for (const CallCopy& copy : place.arguments)
      std::memcpy(memory + copy.to, memory + copy.from, copy.bytes);
  }
  branch(place.target, lanes);
  active_.calls.push_back(site);
  return Step::jump;
}

Step Warp::leave(std::uint32_t lanes) {
  if (active_.calls.empty()) return exit(lanes);
  const std::uint32_t site = active_.calls.back();
  const CallSite& place = program_->calls[site];
  std::vector<std::uint8_t> results;
  for (std::uint32_t rest = lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    std::uint8_t* memory = call_memory(lane);
    if (place.keeps < 0) {
      for (const CallCopy& copy : place.results)
        std::memcpy(memory + copy.to, memory + copy.from, copy.bytes);
      continue;
    }
    results.clear();
    for (const CallCopy& copy : place.results)
      results.insert(results.end(), memory + copy.from, memory + copy.from + copy.bytes);
    restore_frame(program_->functions[static_cast<std::size_t>(place.keeps)], lane);
    const std::uint8_t* from = results.data();
    for (const CallCopy& copy : place.results) {
      std::memcpy(memory + copy.to, from, copy.bytes);
      from += copy.bytes;
    }
  }
  branch(place.back, lanes);
  active_.calls.pop_back();
  return Step::jump;
}

}  // namespace microscale::emulator
