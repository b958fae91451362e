// The same functions in a build without CUDA: there is no device, and the reason is the build.
#if !defined(MICROSCALE_HAS_CUDA)

#include "cuda/device/device.hpp"
#include "cuda/device/environment.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"

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
