#include "emulator/machine/undefined_values.hpp"

#include <algorithm>

namespace microscale::emulator {

bool decides_something(std::string_view opcode) {
  constexpr std::string_view carry[] = {
      "add",   "addc",  "sub",  "subc", "mul",  "mul24", "mad",      "madc",      "mad24", "fma",
      "div",   "rem",   "sad",  "dp4a", "dp2a", "abs",   "neg",      "min",       "max",   "sqrt",
      "rsqrt", "rcp",   "ex2",  "lg2",  "sin",  "cos",   "tanh",     "testp",     "popc",  "clz",
      "brev",  "bfind", "bfe",  "bfi",  "bmsk", "szext", "copysign", "fns",       "lop3",  "shf",
      "shl",   "shr",   "prmt", "and",  "or",   "xor",   "not",      "cnot",      "setp",  "set",
      "selp",  "slct",  "mov",  "cvt",  "cvta", "mapa",  "isspacep", "getctarank"};
  return std::find(std::begin(carry), std::end(carry), opcode) == std::end(carry);
}

}  // namespace microscale::emulator
