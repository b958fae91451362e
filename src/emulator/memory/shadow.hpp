// What is known of every byte of a memory: whether it was written, who wrote it last and who has
// read it since. A page covers 4096 bytes and begins to exist when it is first touched.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace microscale::emulator {

/// A cell names an access: the number of its record in the upper 26 bits, the lane in the lower 6
/// (32: several lanes). 0: none.
using Cell = std::uint32_t;
inline constexpr int cell_lane_bits = 6;
inline constexpr std::uint32_t several_lanes = 32;
constexpr std::uint32_t id_of(Cell cell) { return cell >> cell_lane_bits; }
constexpr std::uint32_t lane_of(Cell cell) { return cell & ((1u << cell_lane_bits) - 1); }
constexpr Cell cell_of(std::uint32_t id, std::uint32_t lane) { return id << cell_lane_bits | lane; }

struct ShadowPage {
  static constexpr std::uint32_t bytes = 4096;

  std::atomic<bool> locked{false};
  std::uint32_t launch = 0;  // cells of another launch mean nothing
  std::uint32_t shift = 2;  // a cell stands for 1 << shift bytes: as many as a lane touches at once
  bool whole = false;       // every byte was written
  std::uint64_t written[bytes / 64] = {};
  std::vector<Cell> writer, reader;  // bytes >> shift of each, or none yet

  static constexpr std::uint32_t widest = 4;  // shift

  /// Empties the cells for another launch, whose first access fits cells of 1 << fit bytes.
  void begin(std::uint32_t launch_number, std::uint32_t fit = 2);
  /// Makes cells of at most 1 << to bytes, each with what the larger one said.
  void refine(std::uint32_t to);

  bool all_written(std::uint32_t offset, std::uint32_t count) const {
    if (whole) return true;
    return offset % 64 == 0 && count == 128
               ? (written[offset / 64] & written[offset / 64 + 1]) == ~std::uint64_t{0}
               : first_unwritten(offset, count) == offset + count;
  }
  /// The same for `count` bytes, a power of two up to 32, at a multiple of it.
  bool is_written(std::uint32_t offset, std::uint32_t count) const {
    const std::uint64_t mask = (std::uint64_t{1} << count) - 1;
    return (written[offset / 64] >> offset % 64 & mask) == mask;
  }
  /// The first byte of [offset, offset + count) that was not written, or offset + count.
  std::uint32_t first_unwritten(std::uint32_t offset, std::uint32_t count) const;
  void mark_written(std::uint32_t offset, std::uint32_t count);

  void lock() {
    while (locked.exchange(true, std::memory_order_acquire))
      while (locked.load(std::memory_order_relaxed)) {
      }
  }
  void unlock() { locked.store(false, std::memory_order_release); }
};

/// The pages of one memory.
class Shadow {
 public:
  explicit Shadow(std::uint64_t bytes);
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  /// The page of byte `offset`; safe to call from several threads.
  ShadowPage& page(std::uint64_t offset) {
    ShadowPage* found = pages_[offset / ShadowPage::bytes].load(std::memory_order_acquire);
    return found ? *found : create(offset / ShadowPage::bytes);
  }
  /// Null if it was never touched.
  const ShadowPage* existing(std::uint64_t offset) const {
    return pages_[offset / ShadowPage::bytes].load(std::memory_order_acquire);
  }
  void mark_written(std::uint64_t offset, std::uint64_t count);
  /// Bytes [offset, offset + count), multiples of 16, are as if no thread had touched them.
  void renew(std::uint64_t offset, std::uint64_t count);

  /// Nothing is written any more. The cells stay; who owns the memory gives them another launch.
  void forget();

 private:
  ShadowPage& create(std::uint64_t index);
  std::vector<std::atomic<ShadowPage*>> pages_;
};

}  // namespace microscale::emulator
