#include "suppressions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "arguments.hpp"
#include "checkpoint/file.hpp"
#include "emulator/kernel_name.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

std::vector<std::string> kinds() {
  std::vector<std::string> names{"*"};
  for (int i = 0; i <= static_cast<int>(emulator::FindingKind::assertion); ++i)
    names.emplace_back(emulator::name_of(static_cast<emulator::FindingKind>(i)));
  return names;
}

bool is_at(const std::string& source, const std::string& place) {
  return source == place || source.substr(0, source.rfind(':')) == place;
}

bool fits(const emulator::Finding& finding, const Suppression& line) {
  if (line.kind != "*" && line.kind != emulator::name_of(finding.kind)) return false;
  if (line.place.empty() || is_at(finding.source, line.place) ||
      is_at(finding.inlined_at, line.place))
    return true;
  return finding.kernel.find(line.place) != std::string::npos ||
         emulator::readable_name(finding.kernel).find(line.place) != std::string::npos;
}

}  // namespace

std::vector<Suppression> read_suppressions(const std::filesystem::path& path) {
  constexpr std::uint64_t most = std::uint64_t{1} << 20;
  std::istringstream text(take(read_small_file(path, most)));
  const std::vector<std::string> known = kinds();
  std::vector<Suppression> list;
  std::string line;
  for (std::size_t number = 1; std::getline(text, line); ++number) {
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    Suppression made{.kind = {}, .place = {}, .line = number};
    if (!(words >> made.kind)) continue;
    if (std::find(known.begin(), known.end(), made.kind) == known.end())
      throw Error(
          ErrorCode::bad_input,
          fmt::format("{}:{}: no finding is of kind '{}'{}; choose one of {}", path.string(),
                      number, made.kind, did_you_mean(made.kind, known), fmt::join(known, ", ")));
    std::getline(words >> std::ws, made.place);
    made.place.erase(made.place.find_last_not_of(" \t\r") + 1);
    list.push_back(std::move(made));
  }
  return list;
}

std::size_t suppress(std::vector<emulator::Finding>& findings,
                     const std::vector<Suppression>& suppressions) {
  return std::erase_if(findings, [&](const emulator::Finding& finding) {
    return std::any_of(suppressions.begin(), suppressions.end(),
                       [&](const Suppression& line) { return fits(finding, line); });
  });
}

}  // namespace microscale
