#include "ops/operand_memory.hpp"

#include <fmt/format.h>

#include "microscale/error.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {

bool runs_on_device(const char* operation, const Context& context,
                    std::initializer_list<OperandMemory> operands) {
  const Backend backend = context.backend;
  const bool automatic = backend == Backend::automatic;
  if (automatic && operands.size() == 0) return false;
  const OperandMemory* const first = operands.begin();
  const Memory wanted = automatic                  ? first->memory
                        : backend == Backend::cuda ? Memory::device
                                                   : Memory::host;
  for (const OperandMemory& operand : operands) {
    if (operand.memory == wanted) continue;
    const bool device = operand.memory == Memory::device;
    if (automatic)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} is in {} memory, but {} in {} memory; copy one of them, or "
                              "set `memory` of its view to where it is",
                              operation, operand.name, device ? "device" : "host", first->name,
                              device ? "host" : "device"));
    throw Error(
        ErrorCode::invalid_argument,
        device ? fmt::format("{}: {} is in device memory (Memory::device), which backend {} does "
                             "not read; choose Backend::cuda, or copy it to the host",
                             operation, operand.name, to_string(backend))
               : fmt::format("{}: {} is in host memory (Memory::host), which backend cuda does not "
                             "read; copy it to the device and set `memory` of its view to "
                             "Memory::device",
                             operation, operand.name));
  }
  if (wanted == Memory::device) return true;
  for (const OperandMemory& operand : operands)
    for (const void* data : operand.data)
      if (is_gpu_memory(data))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} is in device memory, but its view says Memory::host; set "
                                "`memory` of its view to Memory::device, or copy it to the host",
                                operation, operand.name));
  return false;
}

void check_runs_on_host(const char* operation, const Context& context,
                        std::initializer_list<OperandMemory> operands) {
  if (context.backend == Backend::cuda || runs_on_device(operation, context, operands))
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: backend cuda has no such operation (microscale/cuda.hpp lists "
                            "what it has); copy the operands to the host",
                            operation));
}

}  // namespace microscale
