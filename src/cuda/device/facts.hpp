// What choosing a kernel may know of a GPU, and all of it: of one at hand, or of one that is only
// described, so that a choice can be printed and tested anywhere. A choice is a function of these
// facts and of the call.
#pragma once

#include <string>
#include <string_view>

#include "cuda/device/device.hpp"
#include "cuda/device/kernels.hpp"

namespace microscale::cuda {

class DeviceFacts {
 public:
  /// Of a GPU at hand: the device says how many clusters it holds (it remembers its answers).
  explicit DeviceFacts(Device& device) : info_(device.info()), device_(&device) {}
  /// Of a GPU that is not here. `info` must outlive this.
  explicit DeviceFacts(const DeviceInfo& info) : info_(info) {}

  const DeviceInfo& info() const { return info_; }
  std::string_view architecture() const { return architecture_of(info_); }

  /// Answers of one kernel.
  class Occupancy {
   public:
    /// Clusters of `cluster` blocks that the device holds at once; 0 if none fits. A GPU that is
    /// not here is taken to hold one block a multiprocessor, in clusters of up to eight.
    int most_clusters(int cluster, int threads, int shared_bytes) const;

   private:
    friend class DeviceFacts;
    Device* device_ = nullptr;
    Kernel kernel_ = nullptr;
    int multiprocessors_ = 0;
  };
  /// Throws Error{unsupported}, naming `operation`, where a GPU at hand has no such kernel.
  template <class Args>
  Occupancy occupancy(const Entry<Args>& entry, const char* operation) const {
    return occupancy(entry.id, entry.name, operation);
  }

 private:
  Occupancy occupancy(std::int32_t id, std::string_view name, const char* operation) const;

  const DeviceInfo& info_;
  Device* device_ = nullptr;
};

/// GPUs by name, as choices are printed for them: "h100", "h200", "b200", "rtx5090". Throws
/// Error{invalid_argument}, listing them, for another name.
const DeviceInfo& described_gpu(std::string_view name);
/// Those whose plans are printed: of GPUs with the same facts one.
inline constexpr const char* planned_gpus[] = {"h200", "b200", "rtx5090"};

}  // namespace microscale::cuda
