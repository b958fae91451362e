// What a subcommand sees of the terminal: where to write, how to draw, and whether Ctrl-C was
// pressed.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "microscale/error.hpp"
#include "report/progress.hpp"
#include "report/terminal.hpp"

namespace microscale {

/// 1 failed check, 2 usage or unsupported, 3 bad input, 4 out of memory or input/output, 130
/// interrupted.
int exit_code(ErrorCode code);

/// `text` in lines of at most `width` columns (0: 80), broken at blanks, each with a newline: the
/// first indented by `indent`, the others by two more. A word longer than a line gets one of its
/// own.
std::string paragraph(std::string_view text, int width, int indent = 0);

/// Results go to standard output, everything else (progress, notes, errors) to standard error.
class Console {
 public:
  /// Also sees to it that descriptors 0 to 2 are open, so that no file of ours is taken for one of
  /// them, and that a closed pipe is an error of a write and not the end of the process.
  Console();

  bool json = false;  ///< --json: standard output holds exactly one JSON document
  TextStyle out;      ///< of standard output; where it is no terminal: plain
  TextStyle err;      ///< of standard error

  /// Writes `text` to standard output, lines that are too long for `out` broken at their blanks,
  /// in one go with what else is there when it is no terminal. Once its reader is gone (`| head`)
  /// it is dropped in silence, so that the exit code stays the command's. Throws Error{io} where it
  /// cannot be written (disk full).
  void print(std::string_view text);
  /// The same without a look at the width: for what another program reads.
  void print_as_is(std::string_view text);
  /// The document of --json, indented, with a newline. Broken UTF-8 in names becomes U+FFFD.
  void print_json(const nlohmann::ordered_json& document);
  /// A line on standard error; nothing under --json. Control characters are made harmless.
  void note(std::string_view line);
  /// Says on standard error, and under --json as a document too, why a command failed; gives
  /// `code`.
  int report_error(const std::string& command, const char* kind, int code,
                   const std::string& message);
  /// Writes what print holds back; throws as it does. main() calls it at the end.
  void flush();

  std::string bold(
      std::string_view text) const;  ///< for `out`; the text itself where there is no colour
  std::string dim(std::string_view text) const;

  /// Options of a Progress on standard error: a bar or lines, JSON events under --json.
  ProgressOptions progress(std::string operation, std::uint64_t total_bytes,
                           std::uint64_t start_bytes = 0) const;

  /// From here on the first Ctrl-C (or SIGTERM) only sets interrupted(), and the second ends the
  /// process at once with exit code 130. Call it only where interrupted() is looked at: a
  /// ProgressCallback returns !console.interrupted(), and the library then throws
  /// Error{interrupted}.
  void catch_interrupts();
  bool interrupted() const;

 private:
  std::string held_;     // printed, not yet written
  bool closed_ = false;  // the reader of standard output is gone
};

}  // namespace microscale
