#include "seam/gpu_operations.hpp"

#include "microscale/error.hpp"

namespace microscale {
namespace {

constinit const GpuOperations* provided = nullptr;  // written before main() only

}  // namespace

const GpuOperations& gpu_operations(const char* operation) {
  if (provided == nullptr)
    throw Error(ErrorCode::unsupported,
                std::string(operation) +
                    ": this program was linked without backend cuda; link microscale::cuda (CMake: "
                    "find_package(microscale COMPONENTS cuda)), or use another backend");
  return *provided;
}

bool is_gpu_memory(const void* data) {
  return provided != nullptr && data != nullptr && provided->is_gpu_memory(data);
}

void provide_gpu_operations(const GpuOperations& operations) noexcept { provided = &operations; }

}  // namespace microscale
