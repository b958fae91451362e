#include "cuda/kernels.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/kernel_images.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

// What one device has loaded. Modules stay loaded until the process ends.
struct Loaded {
  bool complete = false;
  std::vector<std::pair<const KernelImage*, Module>> modules;
  std::map<std::string, Kernel> kernels;
};

std::string_view text_of(const KernelImage& image) {
  return {reinterpret_cast<const char*>(image.ptx.data()), image.ptx.size()};
}

bool defines(const KernelImage& image, std::string_view name) {
  return text_of(image).find(fmt::format(".entry {}(", name)) != std::string_view::npos;
}

void load_images(Device& device, Loaded& loaded) {
  if (loaded.complete) return;
  for (const KernelImage& image : kernel_images())
    if (image.architecture == architecture_of(device.info()))
      loaded.modules.emplace_back(&image, device.load_module(image.cubin));
  loaded.complete = true;
}

std::mutex mutex;
std::map<const Device*, Loaded> devices;  // guarded by mutex

}  // namespace

std::string_view architecture_of(const DeviceInfo& device) {
  if (device.major == 9 && device.minor == 0) return "sm_90a";
  if (device.major == 10) return "sm_100f";
  if (device.major == 12) return "sm_120f";
  return {};
}

bool has_kernel(std::string_view architecture, std::string_view name) {
  for (const KernelImage& image : kernel_images())
    if (image.architecture == architecture && defines(image, name)) return true;
  return false;
}

Kernel load_kernel(Device& device, const std::string& name, const char* operation) {
  const std::string_view architecture = architecture_of(device.info());
  if (architecture.empty())
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "{}: {} has compute capability {}.{}; backend cuda has kernels for 9.0, 10.x and "
            "12.x; use another GPU or backend",
            operation, device.info().name, device.info().major, device.info().minor));
  std::lock_guard lock(mutex);
  Loaded& loaded = devices[&device];
  if (const auto found = loaded.kernels.find(name); found != loaded.kernels.end())
    return found->second;
  load_images(device, loaded);
  for (const auto& [image, module] : loaded.modules)
    if (defines(*image, name))
      if (Kernel kernel = device.find_kernel(module, name.c_str()))
        return loaded.kernels[name] = kernel;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("{}: backend cuda has no kernel for this combination of format, type, rule, "
                  "rounding and layout ({} on {}); use another backend",
                  operation, name, architecture));
}

void load_all_kernels(Device& device) {
  std::lock_guard lock(mutex);
  load_images(device, devices[&device]);
}

void forget_kernels(const Device& device) noexcept {
  std::lock_guard lock(mutex);
  devices.erase(&device);
}

}  // namespace microscale::cuda
