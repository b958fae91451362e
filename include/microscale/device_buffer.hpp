// Memory of a GPU that frees itself: for programs that call Backend::cuda and have no allocator of
// their own. Links microscale::cuda; on MICROSCALE_BACKEND=emulator-sm90 it is the emulator's.
//
//   DeviceBuffer x = DeviceBuffer::copy_of(std::span(values));       // values: BF16 on the host
//   const TensorView view = packed(x.data(), DType::bf16, rows, cols, Memory::device);
//   ... calls that read `view` ...
//   x.copy_to(std::span(values));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace microscale {

namespace cuda {
class Device;
}

/// Owns bytes of the GPU that was current when it was made, at a multiple of 256. Moves, does not
/// copy. Nothing may use the bytes any more when it is destroyed. All functions throw Error.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;  ///< empty
  /// Allocates; what the bytes hold is not defined. Error{out_of_memory} where there is no room,
  /// Error{unsupported} where there is no GPU.
  explicit DeviceBuffer(std::int64_t bytes);
  /// The same on a device behind the seam of src/cuda/device/device.hpp, current or not.
  DeviceBuffer(cuda::Device& device, std::int64_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  /// A buffer that holds `host`.
  template <class T, std::size_t Extent>
  static DeviceBuffer copy_of(std::span<T, Extent> host) {
    DeviceBuffer buffer(static_cast<std::int64_t>(host.size_bytes()));
    buffer.copy_from(host);
    return buffer;
  }

  std::uint8_t* data() const { return data_; }  ///< device memory; null if empty
  std::int64_t size() const { return size_; }   ///< bytes
  std::span<std::uint8_t> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }
  /// The bytes as numbers of type T.
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  /// Writes `host` to the beginning of the buffer, in the order of `stream` (a cudaStream_t; null:
  /// the default stream). Pageable host memory may be reused when the call returns, pinned memory
  /// when the stream has come by.
  template <class T, std::size_t Extent>
  void copy_from(std::span<T, Extent> host, void* stream = nullptr) {
    static_assert(std::is_trivially_copyable_v<T>);
    write(host.data(), static_cast<std::int64_t>(host.size_bytes()), stream);
  }
  /// Reads the beginning of the buffer into `host`, after all work of `stream`, and waits for it.
  template <class T, std::size_t Extent>
  void copy_to(std::span<T, Extent> host, void* stream = nullptr) const {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
    read(host.data(), static_cast<std::int64_t>(host.size_bytes()), stream);
  }

 private:
  void write(const void* from, std::int64_t bytes, void* stream);
  void read(void* to, std::int64_t bytes, void* stream) const;

  cuda::Device* device_ = nullptr;
  std::uint8_t* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace microscale
