// dequantize: a quantized folder as dense weights again.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command_progress.hpp"
#include "commands.hpp"

namespace microscale {

int run(const DequantizeCommand& command, Console& console) {
  CommandProgress progress(console, "dequantize");
  dequantize_model({.input = command.input,
                    .output = command.output,
                    .dtype = command.dtype,
                    .threads = command.threads},
                   progress.callback());
  progress.finish();
  if (console.json) {
    nlohmann::ordered_json document;
    document["input"] = command.input.string();
    document["output"] = command.output.string();
    document["dtype"] = to_string(command.dtype);
    console.print_json(document);
  } else {
    console.print(fmt::format("Wrote '{}' with {} weights.\n",
                              printable(command.output.string(), console.out.utf8),
                              to_string(command.dtype)));
  }
  return exit_success;
}

}  // namespace microscale
