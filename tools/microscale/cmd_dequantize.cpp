// dequantize: a quantized folder as dense weights again.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command_progress.hpp"
#include "commands.hpp"

namespace microscale {

int run(const DequantizeCommand& command, Console& console) {
  CommandProgress progress(console, "dequantize");
  const DequantizedModel model = dequantize_model({.input = command.input,
                                                   .output = command.output,
                                                   .dtype = command.dtype,
                                                   .threads = command.threads,
                                                   .allow_nan = command.allow_nan},
                                                  progress.callback());
  progress.finish();
  for (const std::string& notice : model.notices) console.note("note: " + notice);
  if (console.json) {
    nlohmann::ordered_json document;
    document["input"] = command.input.string();
    document["output"] = command.output.string();
    document["dtype"] = to_string(command.dtype);
    document["left_out"] = nlohmann::ordered_json::array();
    for (const LeftOut& one : model.left_out) {
      document["left_out"].push_back({{"name", one.name}, {"reason", one.reason}});
    }
    document["notices"] = model.notices;
    console.print_json(document);
  } else {
    std::string text;
    for (const LeftOut& one : model.left_out) {
      text += printable(fmt::format("left out: {} ({})", one.name, one.reason), console.out.utf8) +
              "\n";
    }
    console.print(text);
    console.print(fmt::format("Wrote '{}' with {} weights.\n",
                              printable(command.output.string(), console.out.utf8),
                              to_string(command.dtype)));
  }
  return exit_success;
}

}  // namespace microscale
