// Device memory with a margin on both sides that must keep its pattern: a DeviceBuffer that sees
// what a kernel writes outside. No margin where the device itself notices what leaves an
// allocation: it would be room for that.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/device/device.hpp"
#include "microscale/device_buffer.hpp"

namespace microscale::cuda {

class DeviceBytes {
 public:
  DeviceBytes(Device& device, std::int64_t bytes)
      : device_(device),
        bytes_(bytes),
        margin_(device.info().reports_stray_accesses ? 0 : 256),
        memory_(device, bytes + 2 * margin_) {
    device.set_bytes(memory_.data(), pattern, bytes + 2 * margin_, nullptr);
  }
  DeviceBytes(Device& device, const std::vector<std::uint8_t>& host)
      : DeviceBytes(device, static_cast<std::int64_t>(host.size())) {
    device.copy_to_device(data(), host.data(), bytes_, nullptr);
  }

  std::uint8_t* data() const { return memory_.data() + margin_; }
  std::int64_t size() const { return bytes_; }

  std::vector<std::uint8_t> to_host() const {
    std::vector<std::uint8_t> host(static_cast<std::size_t>(bytes_));
    if (bytes_ > 0) device_.copy_to_host(host.data(), data(), bytes_, nullptr);
    device_.synchronize(nullptr);
    return host;
  }
  bool margins_untouched() const {
    if (margin_ == 0) return true;
    std::vector<std::uint8_t> edges(static_cast<std::size_t>(2 * margin_));
    device_.copy_to_host(edges.data(), memory_.data(), margin_, nullptr);
    device_.copy_to_host(edges.data() + margin_, data() + bytes_, margin_, nullptr);
    device_.synchronize(nullptr);
    for (std::uint8_t byte : edges)
      if (byte != pattern) return false;
    return true;
  }

 private:
  static constexpr std::uint8_t pattern = 0xA5;
  Device& device_;
  std::int64_t bytes_, margin_;
  DeviceBuffer memory_;
};

}  // namespace microscale::cuda
