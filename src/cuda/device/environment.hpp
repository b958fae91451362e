// Which device stands in for the GPU: one that a test puts in force, or the emulated GPU that
// MICROSCALE_BACKEND names. The emulator provides the latter where a program links it.
#pragma once

#include <memory>

#include "cuda/device/device.hpp"

namespace microscale::cuda {

/// While it lives, the public operations of this thread run on `device` where they are told
/// Backend::cuda.
class DeviceInForce {
 public:
  explicit DeviceInForce(Device& device);
  ~DeviceInForce();
  DeviceInForce(const DeviceInForce&) = delete;
  DeviceInForce& operator=(const DeviceInForce&) = delete;

 private:
  Device* before_;
};

/// The device in force; else the one that MICROSCALE_BACKEND names (core/backend_name.hpp), one for
/// the process; null when there is neither. Throws Error: invalid_argument for a name that no
/// backend has, unsupported for an emulated GPU in a program without the emulator.
Device* device_of_environment();

/// Makes an emulated GPU of that compute capability.
using EmulatedGpuMaker = std::unique_ptr<Device> (*)(int major, int minor);

/// src/emulator calls it before main() begins.
void provide_emulated_gpus(EmulatedGpuMaker maker) noexcept;

}  // namespace microscale::cuda
