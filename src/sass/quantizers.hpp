// What a thread of this library's kernels does, by the kernel's name
// (cuda/quantize/args.hpp): the work that main_path() looks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sass/main_path.hpp"

namespace microscale::sass {

struct ThreadWork {
  std::int64_t elements = 0;  // in a tile: of the input; dequantize: of the output
  std::int64_t codes = 0;  // in a tile: written (both axes: two an element) or, by dequantize, read
  int tiles = 1;           // that the thread goes through on a large matrix
  Work work;               // of one tile
};

/// For mode `plain` of the quantizers, SiLU*up and dequantize. Nothing for other kernels: what a
/// search computes depends on the elements, what RMSNorm and Hadamard do on their options.
/// `architecture`: "sm_90", with or without what follows the number.
std::optional<ThreadWork> thread_work(std::string_view kernel, std::string_view architecture);

struct ThreadCost {
  double instructions = 0;  // of a thread from start to end, for all its tiles
  double an_element = 0, a_code = 0;
  MainPath path;  // through one tile
};

/// The first tile with all that a thread does once, and each further one as what a second adds.
/// Nothing where thread_work() or main_path() has none.
std::optional<ThreadCost> thread_cost(const Function& function, std::string_view architecture);

}  // namespace microscale::sass
