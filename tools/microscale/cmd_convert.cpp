// convert: weights that are quantized already, in another container.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command_progress.hpp"
#include "commands.hpp"
#include "launched_ranks.hpp"
#include "microscale/error.hpp"
#include "plan_output.hpp"
#include "report/terminal.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

std::string count(std::int64_t number) { return format_count(static_cast<std::uint64_t>(number)); }

Json start_document(const ConvertCommand& command) {
  Json document;
  document["input"] = command.options.input.string();
  document["output"] = command.options.output.string();
  document["container"] = to_string(command.options.container);
  document["exact"] = command.options.exact;
  return document;
}

int dry_run(const ConvertCommand& command, Console& console) {
  const ConversionPlan plan = plan_convert_model(command.options);
  if (console.json) {
    Json document = start_document(command);
    add_plan(plan, document);
    console.print_json(document);
  } else {
    print_notices(plan, console);
    std::string text = plan_table(plan, true).text(console.out);
    text += fmt::format("\n{}.\nThe container would be {}.\n", disk_sentence(plan),
                        to_string(command.options.container));
    text += copied_text(plan, console.out.utf8) + left_out_text(plan, console.out.utf8);
    console.print(text);
  }
  if (fits_on_disk(plan)) return exit_success;
  console.note(fmt::format("this cannot succeed: {}; make room, or choose another disk",
                           disk_sentence(plan)));
  return exit_code(ErrorCode::io);
}

std::string text_of(const ConvertedModel& model, const ConvertCommand& command, bool utf8) {
  const std::string output = printable(command.options.output.string(), utf8);
  if (model.already_done) {
    return fmt::format("Already done: '{}' holds what this run would write.\n", output);
  }
  std::string text =
      fmt::format("{} weights in {} blocks went into {} with their codes.\n", count(model.weights),
                  count(model.blocks), to_string(command.options.container));
  if (model.cast > 0) {
    text += fmt::format(
        "{} blocks of MXFP4 became NVFP4: {} with the same values, {} by search{}.\n",
        count(model.cast), count(model.cast - model.searched), count(model.searched),
        model.searched > 0
            ? fmt::format(" (their relative MSE is {})", format_percent(model.searched_mse, 4))
            : "");
  }
  text +=
      model.same_values()
          ? fmt::format("Values before and after are the same: hash {:016x}.\n", model.hash_after)
          : fmt::format(
                "Values changed as said above: hash {:016x} before, {:016x} after; what "
                "was written is what is there.\n",
                model.hash_before, model.hash_after);
  text += left_out_text(model.plan, utf8);
  return text + fmt::format("Wrote '{}'.\n", output);
}

}  // namespace

int run(const ConvertCommand& command, Console& console) {
  if (launched_ranks().count() > 1) {
    throw Error(ErrorCode::invalid_argument,
                "convert: one process converts a model; start it without mpirun");
  }
  const std::string fresh = fresh_start(command.options.output, command.options.resume);
  if (!fresh.empty()) console.note("note: " + fresh);
  if (command.dry_run) return dry_run(command, console);
  CommandProgress progress(console, "convert");
  const ConvertedModel model = convert_model(command.options, progress.callback());
  progress.finish();
  if (!console.json) {
    print_notices(model.plan, console);
    console.print(text_of(model, command, console.out.utf8));
    return exit_success;
  }
  Json document = start_document(command);
  document["already_done"] = model.already_done;
  document["weights"] = model.weights;
  document["blocks"] = model.blocks;
  document["blocks_cast"] = model.cast;
  document["blocks_searched"] = model.searched;
  document["searched_relative_mse"] = model.searched_mse;
  document["hash_before"] = fmt::format("{:016x}", model.hash_before);
  document["hash_after"] = fmt::format("{:016x}", model.hash_after);
  document["same_values"] = model.same_values();
  add_plan(model.plan, document);
  if (!fresh.empty()) document["notices"].push_back(fresh);
  console.print_json(document);
  return exit_success;
}

}  // namespace microscale
