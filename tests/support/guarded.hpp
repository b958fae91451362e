// Memory that ends where nothing may be read: what reads beyond an operand dies there.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

namespace microscale::test {

/// A copy of bytes whose last one is the last before an inaccessible page.
class Guarded {
 public:
  explicit Guarded(std::span<const std::uint8_t> bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t own = (bytes.size() + page - 1) / page * page;
    mapped_ = own + page;
    memory_ = static_cast<std::uint8_t*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED || mprotect(memory_ + own, page, PROT_NONE) != 0)
      throw std::runtime_error("no memory to guard");
    data_ = memory_ + own - bytes.size();
    if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  }
  Guarded(const Guarded&) = delete;
  ~Guarded() { munmap(memory_, mapped_); }
  std::uint8_t* data() const { return data_; }

 private:
  std::uint8_t *memory_, *data_;
  std::size_t mapped_;
};

}  // namespace microscale::test
