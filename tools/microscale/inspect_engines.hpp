// inspect --engines: which engine runs a checkpoint on which processor.
#pragma once

#include "checkpoint/quantized_folder.hpp"
#include "console.hpp"

namespace microscale {

/// Prints the table; the exit code.
int inspect_engines(const QuantizedFolder& folder, Console& console);

}  // namespace microscale
