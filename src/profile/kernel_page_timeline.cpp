#include "profile/kernel_page_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "report/svg.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

struct Wait {
  std::uint32_t warp = 0;
  std::uint64_t from = 0, to = 0;
  std::string words;
};

/// The gaps between a warp's turns, from the end of one that waits to the next that does something.
std::vector<Wait> waits_of(const std::vector<emulator::WarpTurn>& turns, std::uint64_t end) {
  std::vector<Wait> waits;
  std::vector<Wait*> open;
  for (const emulator::WarpTurn& turn : turns) {
    auto own = std::find_if(waits.rbegin(), waits.rend(),
                            [&](const Wait& each) { return each.warp == turn.warp; });
    const bool is_open = own != waits.rend() && own->to == end && own->from < end;
    if (is_open && turn.instructions > 0) own->to = turn.start;
    if (!turn.waits.empty() && (turn.instructions > 0 || !is_open))
      waits.push_back({turn.warp, turn.start + turn.instructions, end, turn.waits});
  }
  std::erase_if(waits, [](const Wait& each) { return each.to <= each.from; });
  return waits;
}

}  // namespace

std::string warp_timeline(const KernelProfile& profile) {
  const std::vector<emulator::WarpTurn>& turns = profile.report.timeline;
  if (turns.empty()) return "";
  constexpr double width = 1000, row = 16, left = 64;
  std::uint64_t end = 1;
  std::uint32_t warps = 0;
  for (const emulator::WarpTurn& turn : turns) {
    end = std::max(end, turn.start + turn.instructions);
    warps = std::max(warps, turn.warp + 1);
  }
  const auto x = [&](std::uint64_t time) {
    return left + (width - left) * static_cast<double>(time) / static_cast<double>(end);
  };
  std::vector<Wait> waits = waits_of(turns, end);
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\"><svg class=\"ms timeline\" viewBox=\"0 0 {} {}\" "
      "role=\"img\" aria-label=\"Turns of the warps\">\n",
      width, row * warps + 20);
  for (std::uint32_t warp = 0; warp < warps; ++warp)
    out += fmt::format("<text x=\"0\" y=\"{:.0f}\">warp {}</text>\n", row * warp + 12, warp);
  for (const Wait& each : waits)
    out += fmt::format(
        "<rect class=\"fetched\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"4\"><title>{}"
        "</title></rect>\n",
        x(each.from), row * each.warp + 6, x(each.to) - x(each.from),
        escape_markup(fmt::format("from {} to {}: {}", each.from, each.to, each.words)));
  for (const emulator::WarpTurn& turn : turns)
    if (turn.instructions)
      out += fmt::format(
          "<rect class=\"used\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"12\"><title>"
          "warp {}: {} instructions from {} on</title></rect>\n",
          x(turn.start), row * turn.warp + 2,
          std::max(0.5, x(turn.start + turn.instructions) - x(turn.start)), turn.warp,
          turn.instructions, turn.start);
  out += fmt::format(
      "<text x=\"{}\" y=\"{:.0f}\">0</text><text x=\"{}\" y=\"{:.0f}\" "
      "text-anchor=\"end\">{} instructions</text>\n</svg></div>\n",
      left, row * warps + 16, width, row * warps + 16, format_count(end));
  constexpr std::size_t most = 5;
  std::stable_sort(waits.begin(), waits.end(),
                   [](const Wait& a, const Wait& b) { return a.to - a.from > b.to - b.from; });
  if (waits.size() > most) waits.resize(most);
  std::string list;
  for (const Wait& each : waits)
    list += fmt::format("<li>{} instructions long: {}</li>\n", format_count(each.to - each.from),
                        escape_markup(each.words));
  if (!list.empty())
    out += "<p class=\"note\">The longest waits:</p><ol class=\"findings\">\n" + list + "</ol>";
  return out;
}

}  // namespace microscale
