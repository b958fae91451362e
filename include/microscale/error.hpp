// The one exception type of the public API, and what it can say.
#pragma once

#include <stdexcept>
#include <string>

/// A type that can be caught outside a shared library that microscale is linked into, whose other
/// symbols are hidden.
#define MICROSCALE_VISIBLE __attribute__((visibility("default")))

namespace microscale {

enum class ErrorCode {
  invalid_argument,  ///< The call or the command line is wrong (exit code 2 on the command line).
  bad_input,         ///< A file or its contents are wrong: malformed, inconsistent, non-finite (3).
  unsupported,       ///< Well-formed, but nothing here handles it (2).
  check_failed,      ///< A check the caller asked for did not hold (1).
  out_of_memory,     ///< A buffer could not be had within the limit (4).
  io,                ///< Reading or writing failed: no such file, no room, no permission (4).
  interrupted,       ///< The caller asked to stop; everything already finished is kept (130).
};

/// Stable lower-case name of a code, for JSON ("bad_input").
const char* to_string(ErrorCode code);

/// Thrown by every public function. `what()` is one sentence that says which operation failed, what
/// it was given, what it wanted, and how to mend it.
class MICROSCALE_VISIBLE Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace microscale
