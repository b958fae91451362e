// Host memory that cannot be had is an Error, as all that public functions throw.
#pragma once

#include <fmt/format.h>

#include "microscale/error.hpp"

namespace microscale {

/// Where a public function catches std::bad_alloc.
[[noreturn]] inline void throw_out_of_memory(const char* operation) {
  throw Error(
      ErrorCode::out_of_memory,
      fmt::format("{}: no host memory for its work space; free some, or pass fewer rows a call",
                  operation));
}

}  // namespace microscale
