// include/microscale/cuda.hpp and device_buffer.hpp, on the CUDA runtime or what stands in for it;
// is_capturing is in runtime.cpp.
#include <fmt/format.h>

#include <utility>

#include "cuda/device/device.hpp"
#include "cuda/device/kernels.hpp"
#include "microscale/cuda.hpp"
#include "microscale/device_buffer.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {

int device_count() { return runtime_device_count(); }
std::string unavailable_reason() { return no_device_reason(); }
void select_device(int ordinal) { select_runtime_device(ordinal); }
int current_device() { return runtime_device().info().ordinal; }

std::string device_name() {
  const DeviceInfo& info = runtime_device().info();
  const std::string_view architecture = architecture_of(info);
  if (architecture.empty())
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "cuda: {} has compute capability {}.{}; there are kernels for 9.0, 10.x and 12.x",
            info.name, info.major, info.minor));
  return fmt::format("{} ({})", info.name, architecture);
}

void load_kernels() { load_all_kernels(runtime_device()); }
void set_zero(std::span<std::uint8_t> bytes, void* stream) {
  if (bytes.empty()) return;
  runtime_device().set_bytes(bytes.data(), 0, static_cast<std::int64_t>(bytes.size()), stream);
}
void synchronize(void* stream) { runtime_device().synchronize(stream); }

}  // namespace microscale::cuda

namespace microscale {
namespace {

void check_inside(const char* what, std::int64_t bytes, std::int64_t size) {
  if (bytes > size)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("DeviceBuffer: {} of {} bytes, the buffer has {}; pass at most as many",
                            what, bytes, size));
}

}  // namespace

DeviceBuffer::DeviceBuffer(std::int64_t bytes) : DeviceBuffer(cuda::runtime_device(), bytes) {}

DeviceBuffer::DeviceBuffer(cuda::Device& device, std::int64_t bytes)
    : device_(&device), size_(bytes) {
  if (bytes < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("DeviceBuffer: {} bytes; pass 0 or more", bytes));
  if (bytes > 0) data_ = static_cast<std::uint8_t*>(device.allocate(bytes));
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  if (data_) device_->release(data_);
  device_ = other.device_;
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_) device_->release(data_);
}

void DeviceBuffer::write(const void* from, std::int64_t bytes, void* stream) {
  check_inside("a copy to the device", bytes, size_);
  if (bytes > 0) device_->copy_to_device(data_, from, bytes, stream);
}

void DeviceBuffer::read(void* to, std::int64_t bytes, void* stream) const {
  check_inside("a copy to the host", bytes, size_);
  if (bytes == 0) return;
  device_->copy_to_host(to, data_, bytes, stream);
  device_->synchronize(stream);
}

}  // namespace microscale
