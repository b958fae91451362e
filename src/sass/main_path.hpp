// How many instructions a thread issues on its way through a kernel.
//
// A static count. A path is a way from the first instruction to EXIT, and the main path is the
// shortest one on which a thread does all its work: loads so many bytes from global memory, stores
// so many, converts so many elements, and meets a barrier where the kernel has one. Every
// instruction on it counts one, whatever its predicate (a slot of the scheduler is gone either
// way), address arithmetic and set-up included; those of a function called are counted too.
//
// The shortest way is not always the usual one: a block of zeros may spare a few instructions. So
// where a branch parts ways that meet again within `short_detour` instructions, the longest counts.
// Longer alternatives (blocks with NaN, edges of the matrix, slow-path calls) are left to the
// shortest. Against the counters of an H200: from 4 % too few to 1 % too many along rows, along
// both axes, for dequantize and SiLU*up; 3 to 17 % too few for grouped, where experts are looked
// for and their padding is written (docs/performance/quantize.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sass/listing.hpp"

namespace microscale::sass {

inline constexpr int short_detour = 16;

/// Opcodes that show that elements were converted: each with `modifier` stands for so many.
struct Evidence {
  std::string base, modifier;
  int elements;
};

struct Work {  // of a thread
  std::int64_t load_bytes = 0, store_bytes = 0;
  std::int64_t converted = 0;  // elements
  std::vector<Evidence> evidence;
};

struct MainPath {
  std::vector<int> code;  // indices into Function::code, in order; calls without what they call
  int instructions = 0;   // with it
};

/// Nothing where no path does that work.
std::optional<MainPath> main_path(const Function& function, const Work& work);

}  // namespace microscale::sass
