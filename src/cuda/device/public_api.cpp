// include/microscale/cuda.hpp, on the CUDA runtime; is_capturing is in runtime.cpp.
#include <fmt/format.h>

#include "cuda/device/device.hpp"
#include "cuda/device/kernels.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {

int device_count() { return runtime_device_count(); }
std::string unavailable_reason() { return no_device_reason(); }
void select_device(int ordinal) { select_runtime_device(ordinal); }
int current_device() { return runtime_device().info().ordinal; }

std::string device_name() {
  const DeviceInfo& info = runtime_device().info();
  const std::string_view architecture = architecture_of(info);
  if (architecture.empty())
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "cuda: {} has compute capability {}.{}; there are kernels for 9.0, 10.x and 12.x",
            info.name, info.major, info.minor));
  return fmt::format("{} ({})", info.name, architecture);
}

void load_kernels() { load_all_kernels(runtime_device()); }
void synchronize(void* stream) { runtime_device().synchronize(stream); }

}  // namespace microscale::cuda
