// version: the program's, and what it can compute on here.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "core/threads.hpp"
#include "microscale/context.hpp"

namespace microscale {

int run_version(Console& console) {
  std::vector<std::string> backends;
  for (const Backend backend : available_backends()) backends.emplace_back(to_string(backend));
  if (console.json) {
    console.print_json(
        {{"version", version()}, {"backends", backends}, {"cores", available_cores()}});
  } else {
    console.print(fmt::format("{}\nbackends: {}\ncores: {}\n", tool_version(),
                              fmt::join(backends, ", "), available_cores()));
  }
  return exit_success;
}

}  // namespace microscale
