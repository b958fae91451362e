// Device memory that frees itself, with a margin on both sides that must keep its pattern.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/device.hpp"

namespace microscale::cuda {

class DeviceBytes {
 public:
  DeviceBytes(Device& device, std::int64_t bytes) : device_(device), bytes_(bytes) {
    memory_ = static_cast<std::uint8_t*>(device.allocate(bytes + 2 * margin));
    device.set_bytes(memory_, pattern, bytes + 2 * margin, nullptr);
  }
  DeviceBytes(Device& device, const std::vector<std::uint8_t>& host)
      : DeviceBytes(device, static_cast<std::int64_t>(host.size())) {
    device.copy_to_device(data(), host.data(), bytes_, nullptr);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  DeviceBytes(DeviceBytes&& other) noexcept
      : device_(other.device_), bytes_(other.bytes_), memory_(other.memory_) {
    other.memory_ = nullptr;
  }
  ~DeviceBytes() {
    if (memory_) device_.release(memory_);
  }

  std::uint8_t* data() const { return memory_ + margin; }
  std::int64_t size() const { return bytes_; }

  std::vector<std::uint8_t> to_host() const {
    std::vector<std::uint8_t> host(static_cast<std::size_t>(bytes_));
    if (bytes_ > 0) device_.copy_to_host(host.data(), data(), bytes_, nullptr);
    device_.synchronize(nullptr);
    return host;
  }
  bool margins_untouched() const {
    std::vector<std::uint8_t> edges(2 * margin);
    device_.copy_to_host(edges.data(), memory_, margin, nullptr);
    device_.copy_to_host(edges.data() + margin, data() + bytes_, margin, nullptr);
    device_.synchronize(nullptr);
    for (std::uint8_t byte : edges)
      if (byte != pattern) return false;
    return true;
  }

 private:
  static constexpr std::int64_t margin = 256;
  static constexpr std::uint8_t pattern = 0xA5;
  Device& device_;
  std::int64_t bytes_;
  std::uint8_t* memory_ = nullptr;
};

}  // namespace microscale::cuda
