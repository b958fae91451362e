// Turns what the memory noticed into findings. The first of a kind and instruction gets its
// sentence; those after it have an empty message, because the sink only counts them.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <utility>

#include "emulator/finding.hpp"
#include "emulator/memory/access.hpp"
#include "emulator/memory/undefined_bytes.hpp"

namespace microscale::emulator {

class Reporter {
 public:
  Reporter(const Places& places, FindingSink& sink) : places_(places), sink_(sink) {}

  /// `sentence` makes the message; it is called when the message is needed. `address`: of the byte
  /// it is about, which the lane `access`es ("reads"); 0 and "" where it is about none.
  template <class Sentence>
  void say(FindingKind kind, const Agent& agent, int lane, bool fatal, const Sentence& sentence,
           std::uint64_t address = 0, const char* access = "") {
    Finding finding = places_.at(agent, lane);
    finding.kind = kind;
    finding.address = address;
    finding.access = access;
    if (said_.insert(std::uint64_t{agent.instruction} << 8 | static_cast<std::uint64_t>(kind))
            .second)
      finding.message = sentence();
    sink_.add(std::move(finding), fatal);
  }
  /// Where bytes that nobody wrote are noted instead of reported; null: they are reported.
  UndefinedBytes* undefined = nullptr;

  std::string name(std::uint32_t instruction) const { return places_.name(instruction); }
  std::string opcode(std::uint32_t instruction) const { return places_.opcode(instruction); }

 private:
  const Places& places_;
  FindingSink& sink_;
  std::unordered_set<std::uint64_t> said_;
};

}  // namespace microscale::emulator
