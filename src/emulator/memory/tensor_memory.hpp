// Tensor memory of a block of a datacenter Blackwell: 128 lanes of 512 columns of 32 bits, which is
// allocated by columns. Its words stand here twice: as the units that write them see them, one
// piece of work behind the other, and as tcgen05.ld sees them, which is later.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "emulator/memory/access.hpp"
#include "emulator/memory/shadow.hpp"

namespace microscale::emulator {

/// Lanes [lane, lane + lanes) of columns [column, column + columns).
struct TensorPart {
  std::uint32_t lane = 0, lanes = 0, column = 0, columns = 0;
};

struct TensorAllocation {
  std::uint32_t column = 0, columns = 0;
  Agent owner;  // at the tcgen05.alloc
};

class TensorMemory {
 public:
  static constexpr std::uint32_t lanes = 128, columns = 512, least = 32;  // of an allocation
  static constexpr std::uint64_t bytes = std::uint64_t{4} * lanes * columns;
  static constexpr std::uint32_t word_of(std::uint32_t lane, std::uint32_t column) {
    return lane * columns + column;
  }

  TensorMemory();
  /// Everything free and unwritten, for another block.
  void begin();

  /// Whether `columns` can be asked for at all: a power of two, 32 to 512.
  static bool valid(std::uint32_t columns);
  /// The first column of so many free ones, a multiple of their number: the lowest there are, or
  /// the highest where `high`. `pair`: the same columns there, too, for the other block of a pair.
  std::optional<std::uint32_t> allocate(std::uint32_t count, bool high, const Agent& owner,
                                        TensorMemory* pair = nullptr);
  /// Null where no allocation begins there.
  const TensorAllocation* find(std::uint32_t column) const;
  void free(std::uint32_t column);
  const std::vector<TensorAllocation>& allocations() const { return allocations_; }
  /// Whether all these columns are allocated.
  bool holds(std::uint32_t column, std::uint32_t count) const;

  bool relinquished = false;  // nothing in this block may allocate any more
  // Of a pair (.cta_group::2): the columns that a warp of this block waits for together with the
  // other block's, and what the two then got.
  std::optional<std::uint32_t> asked, granted;

  std::uint32_t* pipeline() { return pipeline_.data(); }
  std::uint32_t* visible() { return visible_.data(); }
  Shadow& shadow() { return *shadow_; }

 private:
  void take(std::uint32_t column, std::uint32_t count, const Agent& owner);

  std::vector<TensorAllocation> allocations_;
  std::uint64_t taken_ = 0;  // bit i: columns 32 i to 32 i + 31
  std::vector<std::uint32_t> pipeline_, visible_;
  std::unique_ptr<Shadow> shadow_;
};

}  // namespace microscale::emulator
