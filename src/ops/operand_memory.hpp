// Whether a call runs on the host or on the device, from its backend and what its views say.
#pragma once

#include <initializer_list>

#include "microscale/context.hpp"
#include "microscale/memory.hpp"

namespace microscale {

/// One operand and where its view says that it lies.
struct OperandMemory {
  const char* name;
  Memory memory;
};

/// True where the call runs on the device: for Backend::cuda, and for Backend::automatic if the
/// operands lie in device memory. Throws Error{invalid_argument}, naming `operation` and the
/// operand, where one lies in memory that the backend does not read, or two lie apart.
bool runs_on_device(const char* operation, const Context& context,
                    std::initializer_list<OperandMemory> operands);

/// The same for an operation that Backend::cuda does not have: throws Error{unsupported} where it
/// would run there.
void check_runs_on_host(const char* operation, const Context& context,
                        std::initializer_list<OperandMemory> operands);

}  // namespace microscale
