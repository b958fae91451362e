// Shell completion: scripts for bash, zsh and fish, written from a description of the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace microscale {

/// One option or positional argument.
struct ArgumentShape {
  std::vector<std::string> names;  ///< "-o", "--output"; empty for a positional argument
  std::string description;
  std::vector<std::string> choices;  ///< all the values there are; empty: anything
  bool takes_value = true;           ///< false: a flag
  bool is_path = false;              ///< complete with files and folders
};

struct CommandShape {
  std::string name;
  std::string description;
  std::vector<ArgumentShape> options;
  std::vector<ArgumentShape> positionals;  ///< each is offered at any position
};

/// The script for `shell` ("bash", "zsh" or "fish"), to be sourced, or put where the shell looks
/// for completions. Empty for any other shell. `program` is the name it completes.
std::string completion_script(std::string_view shell, std::string_view program,
                              const std::vector<CommandShape>& commands,
                              const std::vector<ArgumentShape>& global_options);

}  // namespace microscale
