// quantize: a model folder made smaller; or with --dry-run, what would become of it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/choose_formats.hpp"
#include "checkpoint/convert.hpp"
#include "checkpoint/model_plan.hpp"
#include "checkpoint/named_file.hpp"
#include "checkpoint/output_folder.hpp"
#include "checkpoint/weight_format.hpp"
#include "choice_output.hpp"
#include "command_progress.hpp"
#include "commands.hpp"
#include "launched_ranks.hpp"
#include "plan_output.hpp"
#include "report/html.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t worst_count = 10;

Json plan_document(const ConversionPlan& plan, const QuantizeCommand& command) {
  Json document;
  document["input"] = command.options.input.string();
  document["output"] = command.options.output.string();
  document["format"] = to_string(main_format(command.options));
  document["container"] = to_string(command.options.container);
  document["activations"] = to_string(command.options.activations);
  document["computed_on"] = plan.computed_on;
  if (plan.choice) document["choice"] = Json::parse(to_json(report_on(*plan.choice)));
  add_plan(plan, document);
  return document;
}

void print_plan(const ConversionPlan& plan, const QuantizeCommand& command, Console& console) {
  std::string text = plan_table(plan).text(console.out);
  if (plan.choice) {
    const ChoiceReport choice = report_on(*plan.choice);
    text += "\n" + choice_table(choice).text(console.out) + "\n" + choice_text(choice, console.out);
  }
  text += fmt::format("\n{}. {}.\n",
                      format_change(static_cast<std::uint64_t>(plan.bytes_before),
                                    static_cast<std::uint64_t>(plan.bytes_after)),
                      disk_sentence(plan));
  text += fmt::format("It would be quantized on {}, in the container {}.\n", plan.computed_on,
                      to_string(command.options.container));
  if (command.options.activations == Activations::dynamic ||
      !command.options.input_scales.empty()) {
    text += "Engines are told to quantize the inputs of these layers too.\n";
  }
  text += copied_text(plan, console.out.utf8);
  text += left_out_text(plan, console.out.utf8);
  if (!command.report.empty()) text += "A report is written by the run itself, not by --dry-run.\n";
  console.print(text);
}

int dry_run(const QuantizeCommand& command, Console& console) {
  CommandProgress progress(console, "quantize");
  const ConversionPlan plan = plan_quantize_model(command.options, progress.callback());
  progress.finish();
  if (console.json) {
    console.print_json(plan_document(plan, command));
  } else {
    print_notices(plan, console);
    print_plan(plan, command, console);
  }
  if (fits_on_disk(plan)) return exit_success;
  console.note(fmt::format("this cannot succeed: {}; make room, or choose another disk",
                           disk_sentence(plan)));
  return exit_code(ErrorCode::io);
}

Table cost_table(const ModelReport& report) {
  Table table({{"tensor", Align::left, true},
               {"rel. MSE", Align::right},
               {"SQNR", Align::right},
               {"cosine", Align::right},
               {"max error", Align::right},
               {"clipped", Align::right},
               {"to zero", Align::right}});
  const auto add = [&](const std::string& name, const ErrorSums& error) {
    table.add_row({name, format_percent(error.relative_mse(), 4), format_decibel(error.sqnr_db()),
                   fmt::format("{:.6f}", error.cosine()), format_number(error.max_error),
                   format_percent(error.clipped_share()), format_percent(error.flushed_share())});
  };
  for (const TensorReport* tensor : worst_tensors(report, worst_count))
    add(tensor->name, tensor->error);
  table.add_rule();
  add("all quantized tensors", total_error(report));
  return table;
}

void print_cost(const Conversion& conversion, const QuantizeCommand& command, Console& console) {
  const ModelReport& report = conversion.report;
  const auto quantized =
      std::count_if(report.tensors.begin(), report.tensors.end(),
                    [](const TensorReport& tensor) { return tensor.measured(); });
  std::string text = report.choice ? choice_text(*report.choice, console.out) + "\n" : "";
  text += console.bold("Worst by relative MSE:") + "\n" + cost_table(report).text(console.out);
  text += fmt::format("\n{} of {} tensors quantized to {} ({}).\n", quantized,
                      report.tensors.size(), report.format, report.options);
  if (const OutputErrors outputs = output_errors(report); outputs.layers > 0) {
    text += fmt::format(
        "Error of the layers' outputs under the statistics, mean of {} tensors: {}; had scales "
        "been "
        "searched by the weights alone: {}.\n",
        outputs.layers, format_percent(outputs.mean, 3),
        format_percent(outputs.unweighted_mean, 3));
  }
  text += fmt::format("{} became {}: {}.\n", format_bytes(report.bytes_before),
                      format_bytes(report.bytes_after),
                      format_change(report.bytes_before, report.bytes_after));
  const int ranks = launched_ranks().count();
  text += fmt::format("Quantized on {}{}.\n", conversion.plan.computed_on,
                      ranks > 1 ? fmt::format(" by {} ranks", ranks) : "");
  text += left_out_text(conversion.plan, console.out.utf8);
  text += printable(fmt::format("Wrote '{}'.", command.options.output.string()), console.out.utf8) +
          "\n";
  if (!command.report.empty()) {
    text += printable(fmt::format("Wrote the report '{}'.", command.report.string()),
                      console.out.utf8) +
            "\n";
  }
  console.print(text);
}

// --resume on what an earlier run has finished.
void print_already_done(const Conversion& conversion, const QuantizeCommand& command,
                        Console& console) {
  const FinishedRun& finished = conversion.finished;
  std::string text = fmt::format(
      "Already done: '{}' holds the weights that this run would write in {}. {}\n",
      command.options.output.string(),
      command.options.budget.given() ? "the formats that were chosen"
                                     : to_string(main_format(command.options)),
      finished.hashes_checked
          ? "Options are those that its manifest names, and so is the input as far as sizes, "
            "headers "
            "and samples of 2 MiB a file tell; every tensor has the hash that it had when it was "
            "written."
          : "It has no manifest, so names, sizes and headers were compared; the bytes of weights, "
            "and the scale rule that made them, were not.");
  for (const std::string& file : finished.mended) text += "written again: " + file + "\n";
  for (const std::string& note : finished.notes) text += "note: " + note + "\n";
  if (!command.report.empty()) {
    text += "No report was written, as nothing was measured; see `microscale compare`.\n";
  }
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    shown += printable(text.substr(at, end - at), console.out.utf8) + "\n";
    at = end + 1;
  }
  console.print(shown);
}

// Before hours of work, not after.
void check_report(const QuantizeCommand& command) {
  if (command.report.empty()) return;
  const QuantizeModelOptions& options = command.options;
  take(check_output_place(options.input, options.output));
  take(check_report_place(take(make_model_plan(options)), options, command.report));
}

}  // namespace

int run(const QuantizeCommand& command, Console& console) {
  check_report(command);
  const std::string fresh = fresh_start(command.options.output, command.options.resume);
  if (!fresh.empty() && launched_ranks().rank() == 0) console.note("note: " + fresh);
  if (command.dry_run) return dry_run(command, console);
  Ranks& ranks = launched_ranks();
  if (ranks.rank() != 0) {  // rank 0 speaks for all
    convert_model(command.options, {}, ranks);
    return exit_success;
  }
  CommandProgress progress(console, "quantize");
  const Conversion conversion = convert_model(command.options, progress.callback(), ranks);
  progress.finish();
  if (!command.report.empty() && !conversion.finished.done) {
    take(write_named_file(command.report, render_html(conversion.report)));
  }
  if (console.json) {
    Json document = Json::parse(to_json(conversion.report, JsonDetail::figures));
    document["input"] = command.options.input.string();
    document["output"] = command.options.output.string();
    document["container"] = to_string(command.options.container);
    document["activations"] = to_string(command.options.activations);
    document["computed_on"] = conversion.plan.computed_on;
    document["already_done"] = conversion.finished.done;
    document["hashes_checked"] = conversion.finished.hashes_checked;
    document["mended_files"] = conversion.finished.mended;
    document["finished_notes"] = conversion.finished.notes;
    document["copied_files"] = conversion.plan.copied_files;
    document["dropped_files"] = conversion.plan.dropped_files;
    document["left_out"] = left_out_json(conversion.plan);
    document["notices"] = conversion.plan.notices;
    if (!fresh.empty()) document["notices"].push_back(fresh);
    console.print_json(document);
  } else {
    print_notices(conversion.plan, console);
    if (conversion.finished.done) {
      print_already_done(conversion, command, console);
    } else {
      print_cost(conversion, command, console);
    }
  }
  return exit_success;
}

}  // namespace microscale
