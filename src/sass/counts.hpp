// What a kernel is made of: its instructions by class, and what costs time without computing.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sass/listing.hpp"

namespace microscale::sass {

enum class Class : std::uint8_t {
  conversion,  // between number formats: F2FP, F2I, I2F, ...
  integer,     // and bits: IMAD, LOP3, PRMT, ISETP, SEL, ...
  fp32,        // and the special functions: FFMA, FSETP, MUFU, ...
  half,        // pairs of 16-bit floats: HFMA2, HMNMX2, ...; also their widening, HADD2.F32
  matrix,      // HMMA, HGMMA, OMMA, ...
  shared,
  global,
  local,    // the stack: spilled registers, arrays with a run-time index
  shuffle,  // between lanes: SHFL, VOTE, REDUX
  branch,
  barrier,
  uniform,  // once a warp, on the uniform datapath, constants included
  other
};
inline constexpr std::array<std::string_view, 13> class_names{
    "conversion", "integer", "fp32",   "half",    "matrix",  "shared", "global",
    "local",      "shuffle", "branch", "barrier", "uniform", "other"};

Class class_of(std::string_view opcode);

/// Bytes a lane moves with a load or store of this opcode: 4 where it names no width.
int access_bytes(std::string_view opcode);

struct Counts {
  int instructions = 0;  // without the NOPs that fill up the end
  std::array<int, class_names.size()> by_class{};
  int calls = 0;
  int byte_global = 0, byte_shared = 0;          // loads and stores of one byte a lane
  int compares = 0, selects = 0, min_max = 0;    // ISETP, FSETP, ...; SEL, FSEL; FMNMX, VIMNMX, ...
  int local_loads = 0, local_stores = 0;         // spills
  int fp4_conversions = 0, fp8_conversions = 0;  // to E2M1; to E4M3 or E5M2: two elements each
};

Counts count(const Function& function);

}  // namespace microscale::sass
