#include "emulator/memory/global_memory.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include <fmt/format.h>

#include "microscale/error.hpp"

namespace microscale::emulator {
namespace {

Error too_much(std::uint64_t bytes) {
  return Error(
      ErrorCode::out_of_memory,
      fmt::format("emulator allocate: {} bytes of global memory were asked for and the host has "
                  "not that much; use a smaller problem",
                  bytes));
}

// Of so many bytes with red zones around.
std::uint64_t next_address(std::uint64_t bytes) {
  static std::atomic<std::uint64_t> next{GlobalMemory::first_address};
  const std::uint64_t taken = bytes + 2 * GlobalMemory::red_zone;
  const std::uint64_t zone = next.fetch_add(taken);
  if (zone + taken > GlobalMemory::last_address) throw too_much(bytes);
  return zone + GlobalMemory::red_zone;
}

}  // namespace

std::uint64_t GlobalMemory::allocate(std::uint64_t bytes, std::string name) {
  constexpr std::uint64_t most = std::uint64_t{1} << 40;
  const std::uint64_t padded = (std::min(bytes, most) + alignment - 1) / alignment * alignment;
  std::unique_ptr<std::uint8_t[]> storage;
  if (bytes <= most)
    storage.reset(new (std::nothrow) std::uint8_t[padded + 2 * red_zone + alignment]);
  if (!storage) throw too_much(bytes);
  const std::uint64_t address = next_address(padded);
  const auto raw = reinterpret_cast<std::uint64_t>(storage.get()) + red_zone;
  std::uint8_t* const data = storage.get() + red_zone + (alignment - raw % alignment) % alignment;
  auto allocation = std::make_unique<Allocation>(bytes, std::move(storage), data, address);
  allocation->name = std::move(name);
  const std::unique_lock guard(mutex_);
  allocations_.emplace(address, std::move(allocation));
  return address;
}

void GlobalMemory::release(std::uint64_t address) {
  const std::unique_lock guard(mutex_);
  if (allocations_.erase(address) == 0)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("emulator release: no allocation begins at {:#x}; give what allocate returned",
                    address));
}

std::uint64_t GlobalMemory::heap_allocate(std::uint64_t bytes) {
  {
    const std::unique_lock guard(mutex_);
    if (bytes > heap_bytes - heap_used_) return 0;
    heap_used_ += bytes;
  }
  const std::uint64_t address = allocate(bytes);
  const std::unique_lock guard(mutex_);
  heap_.emplace(address, bytes);
  return address;
}

bool GlobalMemory::heap_release(std::uint64_t address) {
  const std::unique_lock guard(mutex_);
  const auto found = heap_.find(address);
  if (found == heap_.end()) return false;
  heap_used_ -= found->second;
  heap_.erase(found);
  allocations_.at(address)->freed = true;
  return true;
}

Allocation* GlobalMemory::find(std::uint64_t address) const {
  const std::shared_lock guard(mutex_);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation* found = std::prev(after)->second.get();
  return address < found->end && !found->freed ? found : nullptr;
}

Allocation* GlobalMemory::nearest(std::uint64_t address) const {
  const std::shared_lock guard(mutex_);
  Allocation* best = nullptr;
  std::uint64_t distance = ~std::uint64_t{0};
  auto after = allocations_.upper_bound(address);
  if (after != allocations_.end()) {
    best = after->second.get();
    distance = best->begin - address;
  }
  if (after != allocations_.begin()) {
    Allocation* before = std::prev(after)->second.get();
    if (address < before->end || address - before->end < distance) best = before;
  }
  return best;
}

Allocation& GlobalMemory::containing(std::uint64_t address, std::uint64_t bytes,
                                     const char* operation) const {
  Allocation* found = find(address);
  if (!found && bytes == 0) found = nearest(address);
  if (!found || (bytes > 0 && bytes > found->end - address))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "emulator {}: {} bytes at {:#x} are not inside one allocation; give an address that "
            "allocate returned and at most its size",
            operation, bytes, address));
  return *found;
}

void GlobalMemory::write(std::uint64_t address, const void* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  Allocation& allocation = containing(address, bytes, "copy to global memory");
  std::memcpy(allocation.at(address), from, bytes);
  allocation.shadow.mark_written(address - allocation.begin, bytes);
}

void GlobalMemory::fill(std::uint64_t address, std::uint8_t value, std::uint64_t bytes) {
  if (bytes == 0) return;
  Allocation& allocation = containing(address, bytes, "fill of global memory");
  std::memset(allocation.at(address), value, bytes);
  allocation.shadow.mark_written(address - allocation.begin, bytes);
}

void GlobalMemory::read(std::uint64_t address, void* to, std::uint64_t bytes) const {
  if (bytes == 0) return;
  std::memcpy(to, containing(address, bytes, "copy from global memory").at(address), bytes);
}

std::optional<std::uint64_t> GlobalMemory::first_unwritten(std::uint64_t address,
                                                           std::uint64_t bytes) const {
  if (bytes == 0) return std::nullopt;
  const Allocation& allocation = containing(address, bytes, "look at global memory");
  for (std::uint64_t at = address; at < address + bytes;) {
    const std::uint64_t offset = at - allocation.begin, start = offset % ShadowPage::bytes;
    const std::uint64_t part = std::min(address + bytes - at, ShadowPage::bytes - start);
    const ShadowPage* page = allocation.shadow.existing(offset);
    if (!page) return at;
    const std::uint64_t missing =
        page->first_unwritten(static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(part));
    if (missing < start + part) return at + missing - start;
    at += part;
  }
  return std::nullopt;
}

std::uint64_t GlobalMemory::allocated_bytes() const {
  const std::shared_lock guard(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [_, allocation] : allocations_) sum += allocation->bytes();
  return sum;
}

}  // namespace microscale::emulator
