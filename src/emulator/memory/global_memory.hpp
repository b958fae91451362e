// Global memory: allocations at addresses of their own, with red zones around. Shared by every
// launch and by all host threads that run blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>

#include "emulator/memory/shadow.hpp"

namespace microscale::emulator {

/// One allocation: its bytes and what is known of each.
struct Allocation {
  std::uint64_t begin = 0, end = 0;  // addresses
  Shadow shadow;
  std::unique_ptr<std::uint8_t[]> storage;  // with the red zones
  std::uint8_t* first = nullptr;            // in it, aligned as its address is
  std::atomic<bool> freed{false};           // by a kernel's free: no thread may touch it
  std::string name;                         // in findings; may be empty

  Allocation(std::uint64_t bytes, std::unique_ptr<std::uint8_t[]> memory, std::uint8_t* data,
             std::uint64_t address)
      : begin(address),
        end(address + bytes),
        shadow(bytes),
        storage(std::move(memory)),
        first(data) {}
  std::uint64_t bytes() const { return end - begin; }
  std::uint8_t* at(std::uint64_t address) const { return first + (address - begin); }
};

class GlobalMemory {
 public:
  static constexpr std::uint64_t alignment = 256;  // bytes
  static constexpr std::uint64_t red_zone = 4096;  // bytes before and after every allocation
  // Where no pointer of the host leads. No address is given twice in a process, and the same
  // allocations have the same addresses in every one.
  static constexpr std::uint64_t first_address = std::uint64_t{1} << 47;
  static constexpr std::uint64_t last_address = std::uint64_t{1} << 48;

  GlobalMemory() = default;
  GlobalMemory(const GlobalMemory&) = delete;
  GlobalMemory& operator=(const GlobalMemory&) = delete;

  /// A 256-byte aligned address of `bytes` bytes that were never written; 0 bytes give an address
  /// at which nothing may be touched. Throws Error when the host has not that much.
  std::uint64_t allocate(std::uint64_t bytes, std::string name = {});

  /// Throws Error if no allocation begins at `address`. Not while a launch runs.
  void release(std::uint64_t address);

  static constexpr std::uint64_t heap_bytes = std::uint64_t{8} << 20;  // CUDA's default

  /// malloc of a kernel: memory of the heap, or 0 where it has not that much left.
  std::uint64_t heap_allocate(std::uint64_t bytes);
  /// free of a kernel; false if heap_allocate did not return that address, or it was freed. What
  /// was freed stays known, so that a finding names it.
  bool heap_release(std::uint64_t address);

  /// The allocation that contains `address` and was not freed; `nearest`: the one that contains it,
  /// freed or not, or is the fewest bytes away. Null if there is none. Valid until it is released.
  Allocation* find(std::uint64_t address) const;
  Allocation* nearest(std::uint64_t address) const;

  /// Host-side copies. Writing marks bytes as written; reading does not ask whether they are. They
  /// throw Error where they leave the allocation.
  void write(std::uint64_t address, const void* from, std::uint64_t bytes);
  void fill(std::uint64_t address, std::uint8_t value, std::uint64_t bytes);
  void read(std::uint64_t address, void* to, std::uint64_t bytes) const;

  /// The first byte of [address, address + bytes) that was never written, if any.
  std::optional<std::uint64_t> first_unwritten(std::uint64_t address, std::uint64_t bytes) const;

  std::uint64_t allocated_bytes() const;

  /// A number for a new launch; what earlier launches did is ordered before it.
  std::uint32_t next_launch() { return ++launches_; }

 private:
  Allocation& containing(std::uint64_t address, std::uint64_t bytes, const char* operation) const;

  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::unique_ptr<Allocation>> allocations_;  // by their first address
  std::map<std::uint64_t, std::uint64_t> heap_;  // bytes by address, of what is not freed
  std::uint64_t heap_used_ = 0;
  std::atomic<std::uint32_t> launches_{0};
};

}  // namespace microscale::emulator
