// The seam's side of the emulator in a build without it.
#if !defined(MICROSCALE_HAS_KERNEL_TOOLS)

#include <cstdlib>
#include <string>
#include <string_view>

#include "emulator/device.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {

cuda::Device* device_of_environment() {
  const char* name = std::getenv("MICROSCALE_BACKEND");
  if (!name || !std::string_view(name).starts_with("emulator-")) return nullptr;
  throw Error(
      ErrorCode::unsupported,
      std::string("MICROSCALE_BACKEND=") + name +
          ": this build has no emulator; build with -D MICROSCALE_KERNEL_TOOLS=ON, or unset it");
}

}  // namespace microscale::emulator

#endif
