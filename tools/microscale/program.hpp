// The whole command line, for the program's main() and for the Python package.
#pragma once

#include <string>
#include <vector>

namespace microscale {

/// Does what `arguments` (without the program's name) ask for, with the standard streams, and
/// returns the exit code (console.hpp). Throws nothing. The handlers it sets for SIGINT, SIGTERM
/// and SIGPIPE stay, so a process calls it once, from its first thread.
int run_program(std::vector<std::string> arguments);

}  // namespace microscale
