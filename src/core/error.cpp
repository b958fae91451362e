#include "microscale/error.hpp"

namespace microscale {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::bad_input:
      return "bad_input";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::check_failed:
      return "check_failed";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::io:
      return "io";
    case ErrorCode::interrupted:
      return "interrupted";
  }
  return "unknown";
}

}  // namespace microscale
