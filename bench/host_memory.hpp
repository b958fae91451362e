// Host memory of a benchmark: in whole pages, every one of them touched.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "microscale/error.hpp"

namespace microscale::bench {

class HostMemory {
 public:
  HostMemory() : data_(nullptr, &std::free) {}
  /// `option` is what the user makes smaller where there is not enough. Throws
  /// Error{out_of_memory}.
  HostMemory(std::size_t bytes, const char* option)
      : size_(bytes),
        data_(static_cast<std::uint8_t*>(std::aligned_alloc(page, (bytes / page + 1) * page)),
              &std::free) {
    if (!data_)
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("no memory for {} bytes; use a smaller {}", bytes, option));
    std::memset(data_.get(), 1, bytes);
  }

  std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::uint8_t> span() const { return {data(), size()}; }

 private:
  static constexpr std::size_t page = 4096;
  std::size_t size_ = 0;
  std::unique_ptr<std::uint8_t, void (*)(void*)> data_;
};

}  // namespace microscale::bench
