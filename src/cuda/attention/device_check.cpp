#include "cuda/attention/device_check.hpp"

#include <fmt/format.h>

#include "cuda/device/kernels.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

constexpr const char* operation = "attention";

}  // namespace

void check_attention_device(Device& device) {
  if (architecture_of(device.info()).empty())
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "{}: backend cuda has kernels for attention on compute capability 9.0, 10.x and "
            "12.x in this version, and {} is {}.{}; copy the operands to host memory and "
            "leave the backend to `automatic`",
            operation, device.info().name, device.info().major, device.info().minor));
}

void check_attention_memory(Device& device, const AttentionCall& call,
                            std::span<const std::uint8_t> workspace, std::int64_t needed) {
  check_workspace(operation, "attention_workspace_bytes", workspace, needed);
  check_on_device(device, operation, call.memory);
  if (needed == 0) return;
  const MemoryRange work{"the workspace", workspace.data(), needed};
  check_on_device(device, operation, std::span(&work, 1));
  check_apart(operation, work, call.memory);
}

}  // namespace microscale::cuda
