#include "profile/worst_lines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace microscale {
namespace {

std::uint64_t beyond(std::uint64_t sum, std::uint64_t least) {
  return sum > least ? sum - least : 0;
}

std::string reasons(const LineSum& sum) {
  std::vector<std::string> parts;
  const auto sectors = [&](const char* what, std::uint64_t excess, std::uint64_t requests) {
    if (excess)
      parts.push_back(
          fmt::format("{} {} sectors a request too many", what, mean_text(excess, requests)));
  };
  sectors("loads", beyond(sum.load_sectors, sum.load_ideal), sum.loads);
  sectors("stores", beyond(sum.store_sectors, sum.store_ideal), sum.stores);
  if (sum.conflicts)
    parts.push_back(
        fmt::format("{} bank conflicts a request", mean_text(sum.conflicts, sum.shared)));
  if (sum.warps && sum.lanes < 24 * sum.warps)
    parts.push_back(fmt::format("{} of 32 lanes take part", mean_text(sum.lanes, sum.warps)));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

bool is_of_line(const emulator::Finding& finding, const std::string& place) {
  return finding.source == place || finding.inlined_at == place;
}

std::vector<WorstLine> worst_lines(const KernelProfile& profile, std::size_t most) {
  std::vector<WorstLine> lines;
  for (LineSum& sum : by_line(profile)) {
    WorstLine line;
    const std::string place = place_of(profile, sum.file, sum.line);
    for (std::size_t i = 0; i < profile.report.findings.size(); ++i) {
      const emulator::Finding& each = profile.report.findings[i];
      if (is_of_line(each, place) || (sum.file == 0 && each.ptx_line == sum.line))
        line.findings.push_back(i);
    }
    line.wasted = beyond(sum.load_sectors, sum.load_ideal) +
                  beyond(sum.store_sectors, sum.store_ideal) + sum.conflicts +
                  (32 * sum.warps - sum.lanes) / 32;
    line.why = reasons(sum);
    if (line.findings.empty() && line.why.empty()) continue;
    line.sum = std::move(sum);
    lines.push_back(std::move(line));
  }
  std::stable_sort(lines.begin(), lines.end(), [](const WorstLine& a, const WorstLine& b) {
    if (a.findings.empty() != b.findings.empty()) return b.findings.empty();
    return a.wasted > b.wasted;
  });
  if (lines.size() > most) lines.resize(most);
  return lines;
}

}  // namespace microscale
