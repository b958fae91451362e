// Which instruction exists on which target and from which PTX version on, as ptxas 13.0 has it.
#pragma once

#include <optional>
#include <string_view>

#include "core/result.hpp"
#include "emulator/ptx/ast.hpp"
#include "emulator/ptx/module.hpp"

namespace microscale::emulator::ptx {

/// "sm_90a": 90 and 'a'; "sm_120f": 120 and 'f'; plain ones have the suffix 0.
struct Target {
  int number = 0;
  char suffix = 0;
  bool operator==(const Target&) const = default;
};

/// Nothing for a word that names no target of ptxas 13.0.
std::optional<Target> target_of(std::string_view word);
std::string name_of(const Target& target);
/// "sm_75, sm_80, ...": for messages that list the choices.
std::string target_names();

/// Whether the target has the instruction with these modifiers (and number of operands). Fails with
/// the line, what it needs and what the module is for; also for opcodes and modifiers that are
/// not known at all. Safe to call from several threads.
Status check(const Instruction& instruction, const Target& target, Version version);

/// check() for all of a body.
Status check_all(const Function& body, const Target& target, Version version);

}  // namespace microscale::emulator::ptx
