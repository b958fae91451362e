#include "finding_text.hpp"

#include <fmt/format.h>

#include "emulator/causes.hpp"

namespace microscale {

std::vector<std::string> finding_lines(const std::vector<emulator::Finding>& findings) {
  std::vector<std::string> lines;
  for (const std::vector<std::size_t>& group : emulator::by_cause(findings)) {
    const emulator::Finding& first = findings[group.front()];
    lines.push_back(to_sentence(first));
    for (std::size_t i = 1; i < group.size(); ++i)
      lines.push_back("  also: " + to_sentence(findings[group[i]]));
    lines.push_back("  in CUDA: " + cuda_words(first));
    lines.push_back("  cure: " + cure_of(first));
  }
  return lines;
}

}  // namespace microscale
