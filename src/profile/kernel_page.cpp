#include "profile/kernel_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "profile/access_picture.hpp"
#include "report/html_parts.hpp"
#include "profile/kernel_page_findings.hpp"
#include "profile/kernel_page_parts.hpp"
#include "profile/kernel_page_timeline.hpp"
#include "report/svg.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

constexpr std::uint32_t context_lines = 3;

std::string card(std::string_view figure, std::string_view what) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", escape_markup(figure),
                     escape_markup(what));
}

std::string cards(const KernelProfile& profile) {
  const LineSum all = total(profile);
  std::string out =
      "<div class=\"cards\">\n" + card(format_count(all.warps), "instructions executed, by warps");
  out += card(fmt::format("{} of 32", mean_text(all.lanes, all.warps)), "lanes active, on average");
  if (all.loads)
    out += card(sector_text(all.load_sectors, all.load_ideal, all.loads),
                "sectors a global load, and the least that would do");
  if (all.stores)
    out += card(sector_text(all.store_sectors, all.store_ideal, all.stores),
                "sectors a global store, and the least that would do");
  if (all.shared)
    out += card(mean_text(all.conflicts, all.shared), "bank conflicts a shared access");
  out += card(fmt::format("{}", profile.report.findings.size()), profile.report.findings.empty()
                                                                     ? "findings: nothing is wrong"
                                                                     : "findings, listed below");
  for (const auto& [figure, what] : profile.resources) out += card(figure, what);
  return out + "</div>\n";
}

std::string number_cell(std::string_view text, bool bad = false) {
  return fmt::format("<td class=\"n{}\">{}</td>", bad ? " bad" : "", escape_markup(text));
}

/// Which columns of figures this kernel needs: without shared memory there are no conflicts to
/// show.
struct Figures {
  bool loads, stores, shared;
  std::uint64_t most = 0;  ///< executions of one line, the width of a whole bar

  explicit Figures(const LineSum& all)
      : loads(all.loads > 0), stores(all.stores > 0), shared(all.shared > 0) {}
  int columns() const { return 2 + loads + stores + shared; }
  std::string empty() const { return fmt::format("<td colspan=\"{}\"></td>", columns()); }
  std::string across(std::string_view kind, std::string_view text) const {
    return fmt::format("<tr class=\"{}\"><td colspan=\"{}\">{}</td></tr>\n", kind, columns() + 2,
                       escape_markup(text));
  }
  std::string cells(const LineSum& sum) const;
  std::string head(std::string_view last) const;
};

/// The cells of figures that stand before each line's text.
std::string Figures::cells(const LineSum& sum) const {
  const double share = most ? static_cast<double>(sum.warps) / static_cast<double>(most) : 0;
  std::string out = fmt::format("<td class=\"n bar\" style=\"--w:{:.0f}%\">{}</td>", 100 * share,
                                format_count(sum.warps));
  out += number_cell(mean_text(sum.lanes, sum.warps));
  const auto wasted = [](std::uint64_t sectors, std::uint64_t ideal) {
    return 2 * sectors > 3 * ideal;
  };
  if (loads)
    out += number_cell(sector_text(sum.load_sectors, sum.load_ideal, sum.loads),
                       wasted(sum.load_sectors, sum.load_ideal));
  if (stores)
    out += number_cell(sector_text(sum.store_sectors, sum.store_ideal, sum.stores),
                       wasted(sum.store_sectors, sum.store_ideal));
  if (shared) out += number_cell(mean_text(sum.conflicts, sum.shared), sum.conflicts > 0);
  return out;
}

std::string Figures::head(std::string_view last) const {
  std::string out = "<table><thead><tr><th class=\"n\">line</th>";
  const auto column = [&out](std::string_view title, std::string_view tooltip) {
    out += fmt::format("<th scope=\"col\" class=\"n\" title=\"{}\">{}</th>", tooltip, title);
  };
  column("executed", "Executions, by warps");
  column("lanes", "Lanes that took part, of 32");
  constexpr std::string_view sectors =
      "32-byte sectors a request to global memory / the least that would do";
  if (loads) column("load", sectors);
  if (stores) column("store", sectors);
  if (shared) column("conflicts", "Extra turns a request to shared memory");
  return out + fmt::format("<th scope=\"col\" class=\"t\">{}</th></tr></thead>\n<tbody>\n", last);
}

std::string_view short_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string text_cell(std::string_view text, const std::string& marks = {}) {
  std::string wide;
  for (const char c : text) c == '\t' ? wide += "    " : wide += c;
  return "<td class=\"t\">" + marks + escape_markup(wide) + "</td>";
}

std::string source_table(const KernelProfile& profile, const std::vector<LineSum>& sums) {
  Figures figures(total(profile));
  for (const LineSum& sum : sums) figures.most = std::max(figures.most, sum.warps);
  std::string out = figures.head("source");
  std::size_t file = 0;
  std::uint32_t next = 0;  // the line after the last one shown
  const auto context = [&](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t line = std::max(from, 1u); line < to; ++line)
      out += fmt::format("<tr class=\"cold\"><td class=\"n\">{}</td>{}{}</tr>\n", line,
                         figures.empty(), text_cell(profile.files[file - 1].lines[line - 1]));
  };
  const auto end_of_file = [&] {
    if (file && !profile.files[file - 1].lines.empty())
      context(next, std::min(next + context_lines,
                             static_cast<std::uint32_t>(profile.files[file - 1].lines.size()) + 1));
  };
  for (const LineSum& sum : sums) {
    if (sum.file != file) {
      end_of_file();
      file = sum.file;
      next = 0;
      out += figures.across("file", file ? short_name(profile.files[file - 1].name)
                                         : "instructions without a source line");
    }
    if (file && sum.line <= profile.files[file - 1].lines.size() && sum.line > 0) {
      if (next == 0 || sum.line > next + 2 * context_lines) {
        if (next) {
          context(next, next + context_lines);
          out += figures.across("gap", "...");
        }
        context(sum.line > context_lines ? sum.line - context_lines : 1, sum.line);
      } else {
        context(next, sum.line);
      }
      next = sum.line + 1;
    }
    out += fmt::format("<tr id=\"{}\" data-s=\"{}:{}\"><td class=\"n\">{}</td>{}{}</tr>\n",
                       line_id(sum.file, sum.line), sum.file, sum.line,
                       sum.line ? fmt::format("{}", sum.line) : std::string("-"),
                       figures.cells(sum), text_cell(sum.text, finding_marks(profile, sum)));
  }
  end_of_file();
  return out + "</tbody></table>";
}

/// The sums of a single instruction.
LineSum sum_of(const ProfiledInstruction& each) {
  KernelProfile one;
  one.instructions.push_back(each);
  return total(one);
}

std::string ptx_table(const KernelProfile& profile) {
  Figures figures(total(profile));
  for (const ProfiledInstruction& each : profile.instructions)
    figures.most = std::max(figures.most, each.count.warps);
  std::string out = figures.head("PTX"), function;
  for (const ProfiledInstruction& each : profile.instructions) {
    if (each.implied && each.count.warps == 0) continue;
    if (each.count.function != function) {
      function = each.count.function;
      if (function != profile.kernel || !out.ends_with("<tbody>\n"))
        out += figures.across("file", function);
    }
    if (!each.label.empty())
      out += fmt::format("<tr class=\"label\"><td></td>{}{}</tr>\n", figures.empty(),
                         text_cell(each.label + ":"));
    out += fmt::format("<tr data-s=\"{}:{}\" data-p=\"{}\"{}><td class=\"n\">{}</td>{}{}</tr>\n",
                       each.file, each.line, each.count.ptx_line,
                       each.count.warps ? "" : " class=\"cold\"", each.count.ptx_line,
                       figures.cells(sum_of(each)), text_cell(each.text));
  }
  return out + "</tbody></table>";
}

std::string lines(const KernelProfile& profile) {
  const std::vector<LineSum> sums = by_line(profile);
  const bool source =
      std::any_of(sums.begin(), sums.end(), [](const LineSum& sum) { return sum.file != 0; });
  const auto pane = [](std::string_view label, const std::string& table) {
    return fmt::format(
        "<div><h3>{0}</h3><div class=\"pane\" tabindex=\"0\" role=\"region\" "
        "aria-label=\"{0}\">{1}</div></div>\n",
        label, table);
  };
  if (!source) return pane("PTX", ptx_table(profile));
  return "<div class=\"panes wide\">" + pane("Source", source_table(profile, sums)) +
         pane("PTX", ptx_table(profile)) + "</div>";
}

/// The ids of the rows of source lines.
std::set<std::string> rows_shown(const KernelProfile& profile) {
  std::set<std::string> ids;
  for (const LineSum& sum : by_line(profile))
    if (sum.file) ids.insert(line_id(sum.file, sum.line));
  return ids;
}

std::string mix(const KernelProfile& profile) {
  const LineSum all = total(profile);
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">class</th><th scope=\"col\" "
      "class=\"n\">in the text</th>"
      "<th scope=\"col\" class=\"n\">executed</th><th scope=\"col\" "
      "class=\"n\">share</th></tr></thead><tbody>\n";
  for (const ClassSum& sum : by_class(profile)) {
    const double share =
        all.warps ? static_cast<double>(sum.warps) / static_cast<double>(all.warps) : 0;
    out += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n bar\" "
        "style=\"--w:{:.0f}%\">{}</td></tr>\n",
        name_of(sum.which), sum.instructions, format_count(sum.warps), 100 * share,
        format_percent(share, 1));
  }
  out += "</tbody></table></div>\n";
  const std::vector<std::string> specials = specials_of(profile);
  if (!specials.empty())
    out += fmt::format("<p class=\"note\">Special registers in use: {}.</p>",
                       escape_markup(fmt::format("{}", fmt::join(specials, ", "))));
  return out;
}

std::string accesses(const KernelProfile& profile) {
  const ProfiledInstruction* worst = nullptr;
  const auto waste = [](const ProfiledInstruction& each) {
    return each.count.sectors - std::min(each.count.sectors, each.count.ideal_sectors) +
           each.count.bank_conflicts;
  };
  for (const ProfiledInstruction& each : profile.instructions)
    if (each.count.sample.lanes && (!worst || waste(each) > waste(*worst))) worst = &each;
  std::string out;
  for (const ProfiledInstruction& each : profile.instructions) {
    const emulator::AccessSample& sample = each.count.sample;
    const std::string picture = access_picture(sample, profile.buffers);
    if (picture.empty()) continue;
    const std::string place =
        place_of(profile, each.file, each.file ? each.line : each.count.ptx_line);
    const std::string name = fmt::format("{}: {}", place, each.text);
    out += fmt::format(
        "<figure class=\"access\" data-s=\"{}:{}\" data-p=\"{}\" data-worst=\"{}\" "
        "data-name=\"{}\"><figcaption>"
        "<code>{}</code><br />{}; block {}, warp {}, its first time: {}.</figcaption><div "
        "class=\"scroll\" tabindex=\"0\">{}</div></figure>\n",
        each.file, each.line, each.count.ptx_line, &each == worst ? 1 : 0, escape_markup(name),
        escape_markup(each.text),
        escape_markup(each.file ? fmt::format("{}, PTX line {}", place, each.count.ptx_line)
                                : place),
        sample.block, sample.warp, access_words(sample), picture);
  }
  if (out.empty()) return out;
  return "<p class=\"note\"><span class=\"key used\"></span>used by a lane, with its number<span "
         "class=\"key fetched\"></span>"
         "transferred, not used<span class=\"key untouched\"></span>not touched<span class=\"key "
         "clash\"></span>another turn of the same bank</p>"
         "<div class=\"body\">" +
         out + "</div>";
}

}  // namespace

std::string kernel_page(const KernelProfile& profile) {
  const std::string title = escape_markup(profile.title);
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n";
  out += fmt::format("<title>{}</title>\n<style>\n{}\n{}\n{}\n</style>\n</head>\n<body>\n<main>\n",
                     title, svg_style(), page_style(), kernel_page_style());
  out += fmt::format("<header><h1>{}</h1><p class=\"sub\">{} &#183; {} &#183; {}</p></header>\n",
                     title, escape_markup(profile.ptx_name), escape_markup(profile.target),
                     escape_markup(profile.launch));
  out += cards(profile);
  const std::set<std::string> shown = rows_shown(profile);
  out +=
      section("findings", "Findings", "By cause, the worst first.", findings_list(profile, shown));
  out += section("worst", "Worst lines",
                 "Lines with findings, then those that waste most: sectors beyond the least, bank "
                 "conflicts, executions for lanes that take no part.",
                 worst_lines_list(profile, shown));
  out += section("lines", "Line by line",
                 "Executions by warps; lanes that took part, of 32; sectors of 32 bytes a request "
                 "to global memory and the least "
                 "that would do; extra turns a request to shared memory. Choose a line to see what "
                 "belongs to it.",
                 lines(profile));
  out += section("access", "Where the lanes go",
                 "The first access of the lowest warp at each instruction.", accesses(profile));
  const emulator::LaunchReport& report = profile.report;
  if (!report.trace.empty())
    out += section("steps", "One warp, step by step",
                   fmt::format("Block {}, warp {}: {} of its {} steps are kept. Keys n and p step "
                               "on and back; choose a register to draw it.",
                               profile.watched_block, profile.watched_warp,
                               format_count(report.trace.size()), format_count(report.trace_steps)),
                   "<div id=\"stepper\"><noscript><p class=\"note\">Stepping needs "
                   "scripts.</p></noscript></div>");
  out +=
      section("timeline", "The warps of a block",
              fmt::format("Block {}: when each warp runs (thick) and waits (thin; point at it to "
                          "see for what), in instructions. All warps of a round run side by side "
                          "here; a GPU overlaps them by its own rules.",
                          profile.watched_block),
              warp_timeline(profile));
  out += section("mix", "Instruction mix", "", mix(profile));
  if (!profile.tool.empty())
    out += fmt::format("<footer>{}; executed by its PTX machine, not measured on a GPU</footer>\n",
                       escape_markup(profile.tool));
  out += fmt::format(
      "</main>\n<script type=\"application/json\" "
      "id=\"trace-data\">{}</script>\n<script>{}</script>\n</body>\n</html>\n",
      trace_json(profile), kernel_page_script());
  return out;
}

}  // namespace microscale
