// ptx run: a kernel on the emulator, its findings one a line, its buffers into files.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "commands.hpp"
#include "console.hpp"
#include "emulator/kernel_name.hpp"
#include "finding_text.hpp"
#include "ptx_launch.hpp"
#include "report/terminal.hpp"
#include "report/units.hpp"

namespace microscale {

namespace {

// What the kernel printed, with lines and tabs as they are and other control characters harmless.
std::string printed_lines(std::string_view text, bool utf8) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    out += printable(text.substr(0, end), utf8);
    if (end < text.size()) out += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out.empty() || out.back() == '\n' ? out : out + "\n";
}

}  // namespace

int run_ptx_run(const PtxLaunch& launch, Console& console) {
  const PtxLaunched done = perform(launch);
  const emulator::LaunchReport& report = done.report;
  const int code = done.clean() ? exit_success : launch.findings_code;
  if (console.json) {
    nlohmann::ordered_json json{{"kernel", done.kernel},
                                {"completed", report.completed},
                                {"warp_instructions", report.warp_instructions},
                                {"printed", report.printed},
                                {"findings", nlohmann::ordered_json::array()},
                                {"suppressed", done.suppressed},
                                {"unwritten", done.unwritten},
                                {"differences", done.differences},
                                {"prints", done.prints},
                                {"written", nlohmann::ordered_json::array()}};
    for (const emulator::Finding& each : report.findings) json["findings"].push_back(to_json(each));
    for (const PtxLaunch::Output& each : launch.outputs)
      json["written"].push_back(each.path.string());
    console.print_json(json);
    return code;
  }
  console.print_as_is(printed_lines(report.printed, console.out.utf8));
  for (const auto* lines : {&done.prints, &done.unwritten, &done.differences})
    for (const std::string& each : *lines) console.print(printable(each, console.out.utf8) + "\n");
  for (const std::string& each : finding_lines(report.findings))
    console.print(printable(each, console.out.utf8) + "\n");
  console.note(fmt::format("{}: {}, {} warp-instructions, {}", emulator::readable_name(done.kernel),
                           shape_words(launch.request), format_count(report.warp_instructions),
                           report.findings.empty() ? std::string("no findings")
                           : report.completed
                               ? fmt::format("{} findings", report.findings.size())
                               : fmt::format("{} findings, ended early", report.findings.size())));
  if (done.suppressed) console.note(fmt::format("{} findings suppressed", done.suppressed));
  for (const PtxLaunch::Output& each : launch.outputs)
    console.note(fmt::format("wrote {}", each.path.string()));
  return code;
}

}  // namespace microscale
