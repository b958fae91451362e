// Reads a listing without running it: what each instruction is for, and which addresses the lanes
// of a warp touch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/ptx/ast.hpp"
#include "emulator/ptx/module.hpp"

namespace microscale::emulator::ptx {

enum class Role : std::uint8_t {
  set_up,
  index,
  bounds,
  load,
  store,
  atomic,
  barrier,
  matrix,
  arithmetic,
  control
};
const char* name_of(Role role);  // "index arithmetic"

/// One instruction. Of a block whose shape is not known, lanes are neighbours in %tid.x: its x
/// extent is taken as a multiple of 32, and %warp is %tid.x / 32. A name with a number, `%r5@17`,
/// is what instruction 17 makes in %r5; `~%r5` what a loop or a choice adds to it for all lanes
/// alike; `either(..)` is 0 or 1.
struct Note {
  std::uint32_t line = 0;  // of the PTX
  Role role = Role::arithmetic;
  // Of accesses to global, shared, local or generic memory; empty otherwise.
  std::string address;  // "4*%tid.x + 4*%ntid.x*%ctaid.x + [k_param_0]"
  // Bytes from one lane to the next: "4", "4*[k_param_3]", "16 (28 of 31), [q] - 112 (3 of 31)",
  // "?"; where the launch chooses between several, "4; or 8".
  std::string stride;
  std::string verdict;  // "coalesced: 4 sectors of 32 bytes, the least", "..; or ..", ...
};

/// One note for each instruction of the body, in order. `block`: its threads; x = 0: not known.
std::vector<Note> explain(const Module& module, const Function& body, const Extent& block = {});

}  // namespace microscale::emulator::ptx
