// The seam's side of the emulator in a build without it.
#if !defined(MICROSCALE_HAS_KERNEL_TOOLS)

#include <string>

#include "core/backend_name.hpp"
#include "emulator/device.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {

cuda::Device* device_of_environment() {
  const EmulatedGpu* gpu = find_emulated_gpu(backend_of_environment());
  if (!gpu) return nullptr;
  throw Error(
      ErrorCode::unsupported,
      "MICROSCALE_BACKEND=" + std::string(gpu->name) +
          ": this build has no emulator; build with -D MICROSCALE_KERNEL_TOOLS=ON, or unset it");
}

}  // namespace microscale::emulator

#endif
