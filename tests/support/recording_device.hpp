// An emulated GPU that remembers which kernels it has executed.
#pragma once

#include <map>
#include <set>
#include <string>

#include "emulator/device.hpp"

namespace microscale::emulator {

class RecordingDevice final : public EmulatorDevice {
 public:
  RecordingDevice(int major, const LaunchOptions& options, int multiprocessors)
      : EmulatorDevice(major, 0, options, multiprocessors) {}
  cuda::Kernel find_kernel(cuda::Module module, const char* name) override {
    const cuda::Kernel kernel = EmulatorDevice::find_kernel(module, name);
    names_[kernel] = name;
    return kernel;
  }
  void launch(const cuda::LaunchCall& call) override {
    EmulatorDevice::launch(call);
    executed.insert(names_.at(call.kernel));
  }
  std::set<std::string> executed;

 private:
  std::map<cuda::Kernel, std::string> names_;
};

}  // namespace microscale::emulator
