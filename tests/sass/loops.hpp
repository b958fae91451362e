// The loop of assembled code that a test looks at.
#pragma once

#include <cstddef>
#include <optional>

#include "sass/disassemble.hpp"

namespace microscale::testing {

struct Loop {
  int instructions = 0, wanted = 0;
};

/// The shortest run of code from a backward branch's target to it that has an instruction for which
/// wanted(instruction) is true; how many it has of those.
template <class Wanted>
std::optional<Loop> shortest_loop(const sass::Function& kernel, Wanted&& wanted) {
  std::optional<Loop> best;
  for (std::size_t i = 0; i < kernel.code.size(); ++i) {
    const int target = kernel.code[i].target;
    if (target < 0 || target > static_cast<int>(i)) continue;
    Loop loop;
    for (std::size_t at = static_cast<std::size_t>(target); at <= i; ++at) {
      ++loop.instructions;
      loop.wanted += wanted(kernel.code[at]);
    }
    if (loop.wanted > 0 && (!best || loop.instructions < best->instructions)) best = loop;
  }
  return best;
}

}  // namespace microscale::testing
