// What NVIDIA's disassemblers print (SASS), as functions and instructions. Reads the text of
// `nvdisasm FILE.cubin` and of `cuobjdump -sass FILE`; the second says nothing about registers.
// `nvdisasm -gi` names source files as well, of code compiled with -lineinfo.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace microscale::sass {

struct Instruction {
  int address = 0;        // bytes from the function's first
  std::string predicate;  // "P0", "!UP1"; empty: always executed
  std::string opcode;     // with its modifiers: "LDG.E.128.CONSTANT"
  std::string operands;
  int target = -1;   // of a branch or call: index into Function::code; -1: none, or not here
  std::string file;  // that it was compiled from, the innermost of inlined ones; empty: not said

  std::string_view base() const;  // "LDG"
};

struct Function {
  std::string name;  // of the kernel; functions it calls and does not inline follow it in its code
  std::vector<Instruction> code;
  int registers = -1;    // a thread; -1: the text does not say
  int shared_bytes = 0;  // static
};

struct Listing {
  std::string architecture;  // "sm_100"; empty: the text does not say
  std::vector<Function> functions;
};

/// Throws Error{bad_input} where there is no function in it.
Listing parse_listing(std::string_view text);

/// Whether `opcode` has `modifier` among its parts: "U8" in "LDG.E.U8".
bool has_modifier(std::string_view opcode, std::string_view modifier);

}  // namespace microscale::sass
