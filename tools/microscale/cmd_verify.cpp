// verify: what is wrong with a checkpoint, one line per problem.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/verify_model.hpp"
#include "command_progress.hpp"
#include "commands.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(Severity severity) { return severity == Severity::error ? "error" : "warning"; }

std::string plural(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", format_count(static_cast<std::uint64_t>(count)), noun,
                     count == 1 ? "" : "s");
}

Json to_json(const SourceAnswer& source) {
  Json document;
  document["equal_copies"] = source.copies;
  document["decoded_again"] = source.decoded;
  document["tensors"] = Json::array();
  for (const SourceTensor& tensor : source.tensors) {
    document["tensors"].push_back({{"name", tensor.name},
                                   {"coding", tensor.coding},
                                   {"elements", tensor.elements},
                                   {"not_nearest", tensor.not_nearest},
                                   {"rule", tensor.rule},
                                   {"rule_share", tensor.rule_share},
                                   {"ratio", tensor.ratio},
                                   {"relative_mse", tensor.relative_mse}});
  }
  return document;
}

// Of damaged scales the figure says nothing.
std::string percent_text(double share) {
  constexpr double largest_shown = 10;
  return share > largest_shown ? "> 1000 %" : format_percent(share, 4);
}

std::string source_text(const SourceAnswer& source, Console& console) {
  constexpr std::size_t shown = 20;
  Table table({{"tensor", Align::left, true},
               {"rel. MSE", Align::right},
               {"scale rule", Align::left},
               {"followed", Align::right},
               {"not nearest", Align::right},
               {"times the original", Align::right}});
  for (std::size_t i = 0; i < std::min(shown, source.tensors.size()); ++i) {
    const SourceTensor& tensor = source.tensors[i];
    const bool blocks = !tensor.rule.empty();
    table.add_row(
        {tensor.name, percent_text(tensor.relative_mse), blocks ? tensor.rule : tensor.coding,
         blocks ? format_percent(tensor.rule_share, 1) : "",
         blocks ? fmt::format("{}", tensor.not_nearest) : "", format_number(tensor.ratio)});
  }
  const auto compared = static_cast<std::int64_t>(source.tensors.size()) - source.decoded;
  return table.text(console.out) +
         fmt::format("{} compared with the original, worst first; {} are equal{}\n",
                     plural(compared, "quantized weight"), plural(source.copies, "copied tensor"),
                     source.decoded > 0
                         ? fmt::format("; {} decoded again", plural(source.decoded, "dense weight"))
                         : "");
}

Json to_json(const VerifyReport& report, const std::string& path) {
  Json document;
  document["path"] = path;
  document["readable"] = report.readable;
  document["tensors"] = report.tensors;
  document["quantized_modules"] = report.modules;
  document["bytes"] = report.bytes;
  document["errors"] = report.errors();
  document["warnings"] = report.warnings();
  if (const auto& parallel = report.parallel) {
    document["tensor_parallel"] = {{"degree", parallel->degree},
                                   {"largest", parallel->largest},
                                   {"works", parallel->works},
                                   {"unpadded", parallel->unpadded},
                                   {"unknown_role", parallel->unknown}};
  }
  if (report.source) document["source"] = to_json(*report.source);
  document["findings"] = Json::array();
  for (const Finding& finding : report.findings) {
    Json json;
    json["severity"] = name_of(finding.severity);
    json["rule"] = finding.rule;
    json["file"] = finding.file;
    json["tensor"] = finding.tensor;
    json["message"] = finding.message;
    document["findings"].push_back(std::move(json));
  }
  return document;
}

std::string parallel_text(const ParallelAnswer& answer, Console& console) {
  if (answer.works.empty())
    return fmt::format("tensor parallel over {}: nothing is quantized, so nothing was judged\n",
                       answer.degree);
  std::string text = fmt::format(
      "tensor parallel over {}: {}; degrees that leave blocks and heads "
      "whole: {}; of these the parts of {} fit kernels with tiles of 64 rows and 128 columns\n",
      answer.degree, answer.largest == answer.degree ? "fits" : "does not fit",
      fmt::join(answer.works, ", "),
      answer.unpadded.empty() ? "none" : fmt::format("{}", fmt::join(answer.unpadded, ", ")));
  if (answer.unknown.empty()) return text;
  return text + fmt::format("not judged, as their role is not known: {}, first {}\n",
                            plural(static_cast<std::int64_t>(answer.unknown.size()), "module"),
                            printable(answer.unknown.front(), console.out.utf8));
}

void print_text(const VerifyReport& report, const std::string& path, Console& console) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += fmt::format("{} {}\n", console.bold(fmt::format("{}:", name_of(finding.severity))),
                        printable(finding.message, console.out.utf8));
  }
  if (report.source) text += source_text(*report.source, console);
  if (const auto& parallel = report.parallel) text += parallel_text(*parallel, console);
  const std::string verdict = report.findings.empty() ? "nothing is wrong"
                                                      : plural(report.errors(), "error") + ", " +
                                                            plural(report.warnings(), "warning");
  text += printable(path, console.out.utf8);
  if (report.readable) {
    text += fmt::format(": {}, {}, {} read", plural(report.tensors, "tensor"),
                        plural(report.modules, "quantized module"), format_bytes(report.bytes));
  }
  console.print(fmt::format("{}: {}\n", text, verdict));
}

}  // namespace

int run(const VerifyCommand& command, Console& console) {
  std::error_code error;
  if (std::filesystem::equivalent(command.path, command.source, error) && !error) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("verify: --source '{}' is the folder itself; name the model that it was "
                    "made of",
                    command.source.string()));
  }
  CommandProgress progress(console, "verify");
  const VerifyReport report = verify_checkpoint(command.path,
                                                {.threads = command.threads,
                                                 .tensor_parallel = command.tensor_parallel,
                                                 .source = command.source},
                                                progress.callback());
  progress.finish();
  if (console.json)
    console.print_json(to_json(report, command.path.string()));
  else
    print_text(report, command.path.string(), console);
  return report.errors() > 0 ? exit_check_failed : exit_success;
}

}  // namespace microscale
