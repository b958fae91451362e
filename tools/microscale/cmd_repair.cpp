// repair: a quantized folder that loaders refuse or misread, written again as they want it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command_progress.hpp"
#include "commands.hpp"
#include "report/terminal.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

std::string count(std::int64_t number) { return format_count(static_cast<std::uint64_t>(number)); }

std::string text_of(const RepairReport& report, const RepairModelOptions& options, bool utf8) {
  if (report.changes.empty()) {
    return fmt::format("'{}': nothing is to be repaired; nothing was written.\n",
                       printable(options.input.string(), utf8));
  }
  std::string text;
  for (const std::string& change : report.changes) {
    text += fmt::format("{}: {}\n", options.dry_run ? "would be done" : "done",
                        printable(change, utf8));
  }
  if (!report.written) return text + "Nothing was written.\n";
  if (report.blocks > 0) {
    text += fmt::format(
        "Of {} blocks under another global scale, {} stand for the same values and {} "
        "changed: {} scales and {} codes are others, relative squared change {}.\n",
        count(report.blocks), count(report.blocks - report.blocks_inexact),
        count(report.blocks_inexact), count(report.scales_changed), count(report.codes_changed),
        format_percent(report.relative_change, 4));
  }
  return text + fmt::format("Wrote '{}'.\n", printable(options.output.string(), utf8));
}

}  // namespace

int run(const RepairCommand& command, Console& console) {
  if (command.options.output.empty() && !command.options.dry_run) {
    throw Error(ErrorCode::invalid_argument,
                "repair: no output folder was named; name one with -o, or pass --dry-run");
  }
  CommandProgress progress(console, "repair");
  const RepairReport report = repair_model(command.options, progress.callback());
  progress.finish();
  if (!console.json) {
    console.print(text_of(report, command.options, console.out.utf8));
    return exit_success;
  }
  nlohmann::ordered_json document;
  document["input"] = command.options.input.string();
  document["output"] = command.options.output.string();
  document["written"] = report.written;
  document["errors_found"] = report.found;
  document["changes"] = report.changes;
  document["blocks"] = report.blocks;
  document["blocks_changed"] = report.blocks_inexact;
  document["scales_changed"] = report.scales_changed;
  document["codes_changed"] = report.codes_changed;
  document["relative_change"] = report.relative_change;
  console.print_json(document);
  return exit_success;
}

}  // namespace microscale
