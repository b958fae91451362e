#include "profile/kernel_page_findings.hpp"

#include <fmt/format.h>

#include "emulator/causes.hpp"
#include "profile/worst_lines.hpp"
#include "report/svg.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

/// "k.cu:14" as a link to the row of that line, or as it is where the page has no such row.
std::string linked(const KernelProfile& profile, const std::string& place,
                   const std::set<std::string>& shown) {
  const std::size_t colon = place.rfind(':');
  if (colon != place.npos)
    for (std::size_t file = 1; file <= profile.files.size(); ++file) {
      const auto line =
          static_cast<std::uint32_t>(std::strtoul(place.c_str() + colon + 1, nullptr, 10));
      const std::string id = line_id(file, line);
      if (place_of(profile, file, line) == place && shown.count(id))
        return fmt::format("<a href=\"#{}\">{}</a>", id, escape_markup(place));
    }
  return escape_markup(place);
}

std::string sentence(const KernelProfile& profile, std::size_t number,
                     const std::set<std::string>& shown) {
  const emulator::Finding& each = profile.report.findings[number];
  std::string places;
  for (const std::string* place : {&each.inlined_at, &each.source})
    if (!place->empty()) places += (places.empty() ? "" : ", ") + linked(profile, *place, shown);
  return fmt::format(
      "<span id=\"finding-{}\"><b>{}</b> {}{}: {}</span>", number, name_of(each.kind), places,
      places.empty() ? "" : " ",
      escape_markup(to_sentence(each).substr(std::string(name_of(each.kind)).size() + 2)));
}

}  // namespace

std::string line_id(std::size_t file, std::uint32_t line) {
  return fmt::format("line-{}-{}", file, line);
}

std::string findings_list(const KernelProfile& profile, const std::set<std::string>& shown) {
  std::string out;
  for (const std::vector<std::size_t>& group : emulator::by_cause(profile.report.findings)) {
    const emulator::Finding& first = profile.report.findings[group.front()];
    out += "<li>" + sentence(profile, group.front(), shown) +
           fmt::format("<br />In CUDA: {}. <em>Cure: {}.</em>", escape_markup(cuda_words(first)),
                       escape_markup(cure_of(first)));
    if (group.size() > 1) {
      out +=
          fmt::format("<details><summary>{} more of this cause</summary><ul>\n", group.size() - 1);
      for (std::size_t i = 1; i < group.size(); ++i)
        out += "<li>" + sentence(profile, group[i], shown) + "</li>\n";
      out += "</ul></details>";
    }
    out += "</li>\n";
  }
  return out.empty() ? out : "<ul class=\"findings\">\n" + out + "</ul>";
}

std::string finding_marks(const KernelProfile& profile, const LineSum& line) {
  const std::string place = place_of(profile, line.file, line.line);
  std::string out;
  for (std::size_t i = 0; i < profile.report.findings.size(); ++i) {
    const emulator::Finding& each = profile.report.findings[i];
    if (is_of_line(each, place))
      out += fmt::format("<a class=\"mark\" href=\"#finding-{}\" title=\"{}\">{}</a> ", i,
                         escape_markup(each.message), name_of(each.kind));
  }
  return out;
}

std::string worst_lines_list(const KernelProfile& profile, const std::set<std::string>& shown) {
  constexpr std::size_t most = 8;
  std::string out;
  for (const WorstLine& each : worst_lines(profile, most)) {
    const std::string place = place_of(profile, each.sum.file, each.sum.line);
    std::string why = escape_markup(each.why);
    if (!each.findings.empty())
      why = fmt::format("{} finding{}{}{}", each.findings.size(),
                        each.findings.size() > 1 ? "s" : "", why.empty() ? "" : "; ", why);
    out += fmt::format("<li>{}: {} ({} turns wasted) <code>{}</code></li>\n",
                       linked(profile, place, shown), why, format_count(each.wasted),
                       escape_markup(each.sum.text.substr(std::min(
                           each.sum.text.size(), each.sum.text.find_first_not_of(" \t")))));
  }
  return out.empty() ? out : "<ol class=\"findings\">\n" + out + "</ol>";
}

}  // namespace microscale
