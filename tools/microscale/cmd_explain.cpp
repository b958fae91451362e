// explain: how one block becomes bytes, or what every rule and rounding would make of it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "console.hpp"
#include "explain.hpp"

namespace microscale {

int run(const ExplainCommand& command, Console& console) {
  if (command.global_scale) {
    if (command.format != Format::nvfp4)
      throw Error(ErrorCode::invalid_argument,
                  "--global-scale is for nvfp4; other formats have none");
    if (!(*command.global_scale > 0) || std::isinf(*command.global_scale))
      throw Error(
          ErrorCode::invalid_argument,
          "--global-scale must be finite and above 0: it multiplies codes and block scales");
  }
  if (command.compare) {
    const std::vector<Alternative> all = alternatives(command);
    if (console.json)
      console.print_json(to_json(command, all));
    else
      print_alternatives(command, all, console);
    return exit_success;
  }
  const BlockSteps steps = block_steps(command);
  if (console.json)
    console.print_json(to_json(steps));
  else
    print_steps(steps, console);
  return exit_success;
}

}  // namespace microscale
