#include "cuda/device/environment.hpp"

#include <string>

#include "core/backend_name.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

thread_local Device* in_force = nullptr;
constinit EmulatedGpuMaker provided = nullptr;  // written before main() only

std::unique_ptr<Device> make_named_gpu() {
  const EmulatedGpu* gpu = find_emulated_gpu(backend_of_environment());
  if (gpu == nullptr) return nullptr;
  if (provided == nullptr)
    throw Error(ErrorCode::unsupported,
                "MICROSCALE_BACKEND=" + std::string(gpu->name) +
                    ": this program was linked without the emulator; link microscale::ptx (build "
                    "the command line with -D MICROSCALE_KERNEL_TOOLS=ON), or unset it");
  return provided(gpu->major, 0);
}

}  // namespace

DeviceInForce::DeviceInForce(Device& device) : before_(in_force) { in_force = &device; }
DeviceInForce::~DeviceInForce() { in_force = before_; }

Device* device_of_environment() {
  if (in_force) return in_force;
  static const std::unique_ptr<Device> device = make_named_gpu();
  return device.get();
}

void provide_emulated_gpus(EmulatedGpuMaker maker) noexcept { provided = maker; }

}  // namespace microscale::cuda

#if !defined(MICROSCALE_HAS_CUDA)

// A build without CUDA has no other device, and says that the build is why.

namespace microscale::cuda {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::unsupported,
              "cuda: no GPU to run on: " + no_device_reason() +
                  "; build with -D MICROSCALE_CUDA=ON, or use another backend");
}

}  // namespace

int runtime_device_count() { return device_of_environment() ? 1 : 0; }
std::string no_device_reason() {
  return device_of_environment() ? "" : "this build has no CUDA support";
}
Device& runtime_device() {
  if (Device* emulated = device_of_environment()) return *emulated;
  refuse();
}
Device& runtime_device(int ordinal) {
  if (ordinal != 0) refuse();
  return runtime_device();
}
void select_runtime_device(int ordinal) { runtime_device(ordinal); }
bool is_capturing(void*) {
  runtime_device();
  return false;
}

}  // namespace microscale::cuda

#endif
