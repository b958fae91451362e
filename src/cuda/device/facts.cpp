#include "cuda/device/facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "cuda/device/kernel_types.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

constexpr std::int64_t mib = 1 << 20, gib = 1 << 30;

/// As cudaGetDeviceProperties has them.
const std::vector<DeviceInfo>& described() {
  static const std::vector<DeviceInfo> gpus{
      {0, "h100", 9, 0, 132, 50 * mib, 80 * gib},
      {0, "h200", 9, 0, 132, 60 * mib, 141 * gib},
      {0, "b200", 10, 0, 148, 126 * mib, 180 * gib},
      {0, "rtx5090", 12, 0, 170, 96 * mib, 32 * gib},
  };
  return gpus;
}

}  // namespace

DeviceFacts::Occupancy DeviceFacts::occupancy(std::int32_t id, std::string_view name,
                                              const char* operation) const {
  Occupancy answers;
  answers.multiprocessors_ = info_.multiprocessors;
  if (device_ == nullptr) return answers;
  answers.device_ = device_;
  answers.kernel_ = entry_kernel(*device_, id, name, operation);
  return answers;
}

int DeviceFacts::Occupancy::most_clusters(int cluster, int threads, int shared_bytes) const {
  if (device_ != nullptr) return device_->most_clusters(kernel_, cluster, threads, shared_bytes);
  constexpr int most_blocks = 8;
  if (shared_bytes > most_shared_bytes || cluster > most_blocks) return 0;
  return std::max(multiprocessors_ / cluster, 1);
}

const DeviceInfo& described_gpu(std::string_view name) {
  std::vector<std::string> names;
  for (const DeviceInfo& gpu : described()) {
    if (gpu.name == name) return gpu;
    names.push_back(gpu.name);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no GPU called '{}' is described; choose one of {}", name,
                          fmt::join(names, ", ")));
}

}  // namespace microscale::cuda
