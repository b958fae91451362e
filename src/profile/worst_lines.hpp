// Which source lines to look at first: those with findings, then those that waste most.
#pragma once

#include <string>
#include <vector>

#include "profile/kernel_profile.hpp"

namespace microscale {

struct WorstLine {
  LineSum sum;
  std::vector<std::size_t> findings;  ///< numbers in the report, of this line
  /// Turns that need not be: 32-byte sectors beyond the least, extra passes through shared memory,
  /// and executions for lanes that took no part (32 of these are one).
  std::uint64_t wasted = 0;
  std::string why;  ///< "loads 28.0 sectors a request too many; 4.0 bank conflicts a request"
};

/// The worst first, at most `most`, none that is as it should be.
std::vector<WorstLine> worst_lines(const KernelProfile& profile, std::size_t most);

/// Whether a finding belongs to a line: its own, or the call that inlined it.
bool is_of_line(const emulator::Finding& finding, const std::string& place);

}  // namespace microscale
