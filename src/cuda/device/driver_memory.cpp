#include "cuda/device/device.hpp"

#if defined(MICROSCALE_HAS_CUDA)
#include <cuda.h>
#include <dlfcn.h>

#include <atomic>

namespace microscale::cuda {
namespace {

using GetAttributes = decltype(&cuPointerGetAttributes);

// Null while no library has loaded the driver, which stays loaded then.
GetAttributes loaded_driver() {
  static std::atomic<GetAttributes> found{nullptr};
  if (const GetAttributes known = found.load(std::memory_order_acquire)) return known;
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  const auto get = reinterpret_cast<GetAttributes>(dlsym(driver, "cuPointerGetAttributes"));
  found.store(get, std::memory_order_release);
  return get;
}

}  // namespace

DriverMemory driver_memory(const void* pointer) {
  const GetAttributes get = loaded_driver();
  if (get == nullptr) return {};
  unsigned type = 0, managed = 0;
  int ordinal = -1;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &managed, &ordinal};
  if (get(3, wanted, values, reinterpret_cast<CUdeviceptr>(pointer)) != CUDA_SUCCESS) return {};
  if (managed != 0 || type == CU_MEMORYTYPE_HOST) return {DriverMemory::shared, ordinal};
  if (type == CU_MEMORYTYPE_DEVICE) return {DriverMemory::device, ordinal};
  return {};
}

}  // namespace microscale::cuda

#else

namespace microscale::cuda {

DriverMemory driver_memory(const void*) { return {}; }

}  // namespace microscale::cuda

#endif
