#include "cuda/device/device.hpp"

#if defined(MICROSCALE_HAS_CUDA)
#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>

namespace microscale::cuda {
namespace {

using GetAttributes = decltype(&cuPointerGetAttributes);

/// How many libraries the process has loaded so far: far cheaper than to look for one by name.
std::uint64_t libraries_loaded() {
  std::uint64_t loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<std::uint64_t*>(result) = info->dlpi_adds;
        return 1;  // the first one says it already
      },
      &loaded);
  return loaded;
}

// Null while no library has loaded the driver, which stays loaded then. Looked for by name, which
// searches folders for tens of microseconds, only where a library came since the last time.
GetAttributes loaded_driver() {
  static std::atomic<GetAttributes> found{nullptr};
  static std::atomic<std::uint64_t> looked_at{0};
  if (const GetAttributes known = found.load(std::memory_order_acquire)) return known;
  const std::uint64_t loaded = libraries_loaded();
  if (looked_at.load(std::memory_order_acquire) == loaded) return nullptr;
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) {
    looked_at.store(loaded, std::memory_order_release);
    return nullptr;
  }
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
