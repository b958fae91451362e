#include "cuda/device/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <string_view>
#include <vector>

#include "cuda/kernel_table.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

// What one device has loaded. Modules stay loaded until the process ends.
struct Loaded {
  bool complete = false;
  std::map<const KernelImage*, Module> modules;
  std::map<std::string, Kernel> kernels;
};

using Index = std::map<std::string_view, const KernelImage*>;  // by entry point

// Of one architecture; made once.
const Index& index_of(std::string_view architecture) {
  static std::mutex making;
  static std::map<std::string_view, Index> indexes;
  std::lock_guard lock(making);
  const auto [found, is_new] = indexes.try_emplace(architecture);
  if (is_new)
    for (const KernelImage& image : kernel_images())
      if (image.architecture == architecture)
        for (std::string_view name : names_in(image)) found->second.emplace(name, &image);
  return found->second;
}

void load_images(Device& device, Loaded& loaded) {
  if (loaded.complete) return;
  for (const KernelImage& image : kernel_images())
    if (image.architecture == architecture_of(device.info()))
      loaded.modules.emplace(&image, device.load_image(image));
  loaded.complete = true;
}

std::mutex mutex;
// Guarded by mutex. Never freed: devices that live until the process ends are forgotten at its end.
std::map<const Device*, Loaded>& devices() {
  static auto* const all = new std::map<const Device*, Loaded>;
  return *all;
}

}  // namespace

std::int32_t find_entry(std::int32_t first, std::int32_t count, std::string_view name) {
  const auto begin = entry_names.begin() + first, end = begin + count;
  const auto at = std::lower_bound(begin, end, name);
  return at != end && *at == name ? static_cast<std::int32_t>(at - entry_names.begin()) : -1;
}

FoundKernels::FoundKernels() : kernels_(new std::atomic<Kernel>[entry_names.size()] {}) {}

std::string_view architecture_of(const DeviceInfo& device) {
  if (device.major == 9 && device.minor == 0) return "sm_90a";
  if (device.major == 10) return "sm_100f";
  if (device.major == 12) return "sm_120f";
  return {};
}

std::vector<std::string_view> names_in(const KernelImage& image) {
  std::vector<std::string_view> names;
  std::string_view rest = image.entries;
  for (std::size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1))
    names.push_back(rest.substr(0, end));
  return names;
}

bool has_kernel(std::string_view architecture, std::string_view name) {
  return index_of(architecture).contains(name);
}

std::vector<std::string> kernel_names(std::string_view architecture) {
  std::vector<std::string> names;
  for (const auto& [name, image] : index_of(architecture)) names.emplace_back(name);
  return names;
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
  Loaded& loaded = devices()[&device];
  if (const auto found = loaded.kernels.find(name); found != loaded.kernels.end())
    return found->second;
  load_images(device, loaded);
  const Index& index = index_of(architecture);
  if (const auto at = index.find(name); at != index.end())
    if (Kernel kernel = device.find_kernel(loaded.modules.at(at->second), name.c_str()))
      return loaded.kernels[name] = kernel;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("{}: backend cuda has no kernel for this combination of format, type, rule, "
                  "rounding and layout ({} on {}); use another backend",
                  operation, name, architecture));
}

Kernel entry_kernel(Device& device, std::int32_t id, std::string_view name, const char* operation) {
  if (id >= 0)
    if (const Kernel kernel = device.found_kernels[id].load(std::memory_order_acquire))
      return kernel;
  const Kernel kernel = load_kernel(device, std::string(name), operation);
  if (id >= 0) device.found_kernels[id].store(kernel, std::memory_order_release);
  return kernel;
}

void load_all_kernels(Device& device) {
  std::lock_guard lock(mutex);
  load_images(device, devices()[&device]);
}

void forget_kernels(const Device& device) noexcept {
  std::lock_guard lock(mutex);
  devices().erase(&device);
}

std::uint64_t next_ticket() {
  static std::atomic<std::uint64_t> last = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  const std::uint64_t ticket = last.fetch_add(odd) + odd;
  return ticket != 0 ? ticket : next_ticket();
}

}  // namespace microscale::cuda
