#include "emulator/causes.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "emulator/finding.hpp"

namespace microscale::emulator {
namespace {

/// What ends a launch, then what makes its results wrong, then what may.
int rank(FindingKind kind) {
  constexpr FindingKind worst_first[] = {FindingKind::assertion,
                                         FindingKind::out_of_bounds,
                                         FindingKind::misaligned,
                                         FindingKind::misuse,
                                         FindingKind::bad_selector,
                                         FindingKind::padding,
                                         FindingKind::deadlock,
                                         FindingKind::divergent_aligned,
                                         FindingKind::race,
                                         FindingKind::missing_wait,
                                         FindingKind::missing_fence,
                                         FindingKind::absent_block,
                                         FindingKind::uninitialised_memory,
                                         FindingKind::uninitialised_register};
  const auto* found = std::find(std::begin(worst_first), std::end(worst_first), kind);
  return static_cast<int>(found - std::begin(worst_first));
}

bool about_order(FindingKind kind) {
  return kind == FindingKind::race || kind == FindingKind::missing_wait ||
         kind == FindingKind::missing_fence || kind == FindingKind::uninitialised_memory;
}

using Cause = std::tuple<int, std::string>;

Cause cause_of(const Finding& finding) {
  if (about_order(finding.kind) && !finding.object.empty()) {
    const std::string name = finding.object.substr(0, finding.object.find(' '));
    return {-1 - static_cast<int>(space_of(finding)), name};
  }
  const std::string& place = finding.inlined_at.empty() ? finding.source : finding.inlined_at;
  return {static_cast<int>(finding.kind), place.empty() ? std::to_string(finding.ptx_line) : place};
}

}  // namespace

std::vector<std::vector<std::size_t>> by_cause(const std::vector<Finding>& findings) {
  std::map<Cause, std::vector<std::size_t>> causes;
  for (std::size_t i = 0; i < findings.size(); ++i) causes[cause_of(findings[i])].push_back(i);
  const auto worse = [&](std::size_t a, std::size_t b) {
    const int first = rank(findings[a].kind), second = rank(findings[b].kind);
    return first != second ? first < second : a < b;
  };
  std::vector<std::vector<std::size_t>> groups;
  for (auto& [_, group] : causes) {
    std::sort(group.begin(), group.end(), worse);
    groups.push_back(std::move(group));
  }
  std::sort(groups.begin(), groups.end(),
            [&](const auto& a, const auto& b) { return worse(a.front(), b.front()); });
  return groups;
}

}  // namespace microscale::emulator
