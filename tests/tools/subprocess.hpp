// Runs the real binary, or a shell around it, and keeps what it wrote and how it ended.
#pragma once

#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "support/paths.hpp"

namespace microscale::testing {

struct Outcome {
  int code = -1;    ///< exit code; 128 + the number of the signal that ended it
  std::string out;  ///< standard output; of a terminal: both
  std::string err;
};

using Environment = std::map<std::string, std::string>;

namespace detail {

inline std::string read_back(std::FILE* file) {
  std::string text;
  std::array<char, 4096> buffer;
  std::rewind(file);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file))
    text.append(buffer.data(), count);
  std::fclose(file);
  return text;
}

inline int exit_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

[[noreturn]] inline void execute(std::vector<std::string>& command,
                                 const Environment& environment) {
  for (const char* name : {"NO_COLOR", "CI", "LC_ALL", "LC_CTYPE", "COLUMNS"}) unsetenv(name);
  setenv("LANG", "C.UTF-8", 1);
  setenv("TERM", "xterm", 1);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace detail

/// Runs `command` (program and arguments) with `input` on standard input; no terminal anywhere.
/// Standard output goes to `output` where that is a descriptor, else into the outcome.
inline Outcome run_command(std::vector<std::string> command, const std::string& input = "",
                           const Environment& environment = {}, int output = -1) {
  std::FILE* in = std::tmpfile();
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  std::fwrite(input.data(), 1, input.size(), in);
  std::rewind(in);
  const pid_t child = fork();
  if (child == 0) {
    dup2(fileno(in), STDIN_FILENO);
    dup2(output >= 0 ? output : fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    detail::execute(command, environment);
  }
  Outcome outcome;
  outcome.code = detail::exit_of(child);
  std::fclose(in);
  outcome.out = detail::read_back(out);
  outcome.err = detail::read_back(err);
  return outcome;
}

/// The binary with `arguments`.
inline Outcome microscale(std::vector<std::string> arguments, const std::string& input = "",
                          const Environment& environment = {}) {
  arguments.insert(arguments.begin(), program());
  return run_command(std::move(arguments), input, environment);
}

/// The binary, its standard output a pipe that nobody reads any more.
inline Outcome microscale_unread(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program());
  int ends[2];
  if (pipe(ends) != 0) return {};
  close(ends[0]);
  Outcome outcome = run_command(std::move(arguments), "", {}, ends[1]);
  close(ends[1]);
  return outcome;
}

/// `script` in bash, where $microscale is the binary.
inline Outcome bash(const std::string& script) {
  return run_command({"bash", "--norc", "-c", script}, "", {{"microscale", program()}});
}

/// The binary with `arguments` on a terminal of `columns` columns.
inline Outcome microscale_on_terminal(std::vector<std::string> arguments, unsigned short columns,
                                      const Environment& environment = {}) {
  arguments.insert(arguments.begin(), program());
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) detail::execute(arguments, environment);
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = read(terminal, buffer.data(), buffer.size())) > 0;)
    for (ssize_t i = 0; i < count; ++i)
      if (buffer[static_cast<std::size_t>(i)] != '\r')
        outcome.out += buffer[static_cast<std::size_t>(i)];
  outcome.code = detail::exit_of(child);
  close(terminal);
  return outcome;
}

/// `text` at its newlines.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace microscale::testing
