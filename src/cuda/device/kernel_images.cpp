#include "cuda/device/kernel_images.hpp"

#if defined(MICROSCALE_HAS_CUDA)
#include <zstd.h>
#endif

#include <fmt/format.h>

#include <string_view>

#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

[[noreturn]] void refuse(std::span<const std::uint8_t> packed, std::string_view reason) {
  throw Error(ErrorCode::bad_input,
              fmt::format("cuda: {} bytes of a compiled kernel cannot be unpacked: {}; build the "
                          "library again",
                          packed.size(), reason));
}

#if defined(MICROSCALE_HAS_CUDA)
std::unique_ptr<std::uint8_t[]> unpack(std::span<const std::uint8_t> packed, std::size_t& size) {
  const auto wanted = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (wanted == ZSTD_CONTENTSIZE_ERROR || wanted == ZSTD_CONTENTSIZE_UNKNOWN)
    refuse(packed, "they are no frame of zstd that says its size");
  auto unpacked = std::make_unique_for_overwrite<std::uint8_t[]>(wanted);
  size = ZSTD_decompress(unpacked.get(), wanted, packed.data(), packed.size());
  if (ZSTD_isError(size)) refuse(packed, ZSTD_getErrorName(size));
  return unpacked;
}
#else
std::unique_ptr<std::uint8_t[]> unpack(std::span<const std::uint8_t> packed, std::size_t&) {
  refuse(packed, "this build carries no kernels, and no zstd");
}
#endif

}  // namespace

std::span<const std::uint8_t> ImageBytes::bytes() const {
  std::lock_guard lock(mutex_);
  if (!bytes_) bytes_ = unpack(packed_, size_);
  return {bytes_.get(), size_};
}

}  // namespace microscale::cuda
