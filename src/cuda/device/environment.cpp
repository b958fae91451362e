#include "cuda/device/environment.hpp"

#include <string>

#include "core/backend_name.hpp"
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
