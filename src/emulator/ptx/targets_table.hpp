// The data behind targets.cpp: what each opcode may carry, and what its forms need.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace microscale::emulator::ptx {

/// A set of targets.
enum class Needs : std::uint8_t {
  any,
  sm80,
  sm86,
  sm89,
  sm90,
  sm100,               // that number or a larger one
  hopper_specific,     // 90a
  specific,            // 90a, and a or f of 100 and later
  blackwell_specific,  // a or f of 100 and later
  datacenter,          // a or f of 100 to 119
  datacenter_a,        // a of 100 to 119
  sm100_sm103,         // a or f of 100 and 103
  sm100a_sm103a,
  sm100a_sm110a,
  rtx,   // a or f of 120 and later
  none,  // no target takes it
};

/// A form of an opcode. It is a form of this rule when all words of `when` hold: a modifier (a `*`
/// at its end takes any ending), each behind the one before; `-word`: no such modifier; `#3`: three
/// operands; `%cluster`: an operand is a special register of clusters. Every rule that holds
/// counts.
struct Rule {
  std::string_view opcode;
  std::string_view when;
  Needs needs = Needs::any;
  std::uint8_t major = 6, minor = 3;  // the first PTX version
};
std::span<const Rule> target_rules();

/// The modifiers that an opcode may carry at all; $words stand for groups.
struct Spelling {
  std::string_view opcode;
  std::string_view modifiers;
};
std::span<const Spelling> target_spellings();
std::string_view target_group(std::string_view name);  // "$round": "rn rz rm rp"

}  // namespace microscale::emulator::ptx
