// One file of a compiled kernel as the library carries it, compressed by zstd: a tenth of the size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace microscale::cuda {

class ImageBytes {
 public:
  /// `packed` outlives this.
  explicit ImageBytes(std::span<const std::uint8_t> packed) : packed_(packed) {}

  std::span<const std::uint8_t> packed() const { return packed_; }

  /// The file, unpacked by the first who asks and kept as long as this lives. For any thread.
  /// Throws Error{bad_input} where `packed` is no whole frame of zstd or its checksum is wrong.
  std::span<const std::uint8_t> bytes() const;

 private:
  std::span<const std::uint8_t> packed_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::unique_ptr<std::uint8_t[]> bytes_;
  mutable std::size_t size_ = 0;
};

}  // namespace microscale::cuda
