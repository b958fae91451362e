#include "emulator/machine/findings.hpp"

#include <fmt/format.h>

namespace microscale::emulator {

void Findings::add(Finding finding, bool fatal) {
  std::lock_guard lock(mutex_);
  const auto [place, made] = findings_.try_emplace({finding.ptx_line, finding.kind}, finding);
  if (!made) place->second.count += finding.count;
  if (!fatal) return;
  fatal_ = true;
  if (stop_) *stop_ = true;
}

std::vector<Finding> Findings::all() const {
  std::lock_guard lock(mutex_);
  std::vector<Finding> list;
  for (const auto& [place, finding] : findings_) list.push_back(finding);
  return list;
}

Finding LaunchPlaces::at(const Agent& agent, int lane) const {
  Finding finding;
  finding.kernel = program_.name;
  finding.block[0] = agent.block % shape_.grid[0];
  finding.block[1] = agent.block / shape_.grid[0] % shape_.grid[1];
  finding.block[2] = agent.block / shape_.grid[0] / shape_.grid[1];
  const std::uint32_t thread = agent.warp * warp_lanes + static_cast<std::uint32_t>(lane);
  finding.thread[0] = thread % shape_.block[0];
  finding.thread[1] = thread / shape_.block[0] % shape_.block[1];
  finding.thread[2] = thread / shape_.block[0] / shape_.block[1];
  const OpInfo& info = program_.info[agent.instruction];
  finding.ptx_line = info.line;
  finding.source = module_.source(info.source);
  finding.inlined_at = module_.inlined_at(info.source);
  return finding;
}

std::string LaunchPlaces::name(std::uint32_t instruction) const {
  const OpInfo& info = program_.info[instruction];
  const std::string source = module_.source(info.source);
  if (source.empty()) return fmt::format("PTX line {}", info.line);
  return fmt::format("PTX line {} ({})", info.line,
                     with_call(source, module_.inlined_at(info.source)));
}

std::string LaunchPlaces::opcode(std::uint32_t instruction) const {
  return std::string(program_.info[instruction].opcode);
}

}  // namespace microscale::emulator
