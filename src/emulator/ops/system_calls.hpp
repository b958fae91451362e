// Functions that CUDA's device runtime has and PTX only declares.
#pragma once

#include <string_view>

namespace microscale::emulator {

struct SystemFunction {
  std::string_view name;
  std::string_view key;   // of the handler
  int argument_bytes[5];  // of each
  int arguments = 0;
  int result_bytes = 0;  // 0: none
};

/// Null if there is none of that name.
const SystemFunction* system_function(std::string_view name);

}  // namespace microscale::emulator
