#include "emulator/memory/tensor_memory.hpp"

#include <algorithm>
#include <bit>

namespace microscale::emulator {
namespace {

std::uint64_t granules(std::uint32_t column, std::uint32_t count) {
  const std::uint32_t first = column / TensorMemory::least;
  const std::uint32_t last = (column + count - 1) / TensorMemory::least;
  return ((std::uint64_t{2} << (last - first)) - 1) << first;
}

}  // namespace

TensorMemory::TensorMemory()
    : pipeline_(lanes * columns),
      visible_(lanes * columns),
      shadow_(std::make_unique<Shadow>(bytes)) {}

void TensorMemory::begin() {
  allocations_.clear();
  taken_ = 0;
  relinquished = false;
  asked.reset(), granted.reset();
  shadow_->forget();
}

bool TensorMemory::valid(std::uint32_t count) {
  return count >= least && count <= columns && std::has_single_bit(count);
}

std::optional<std::uint32_t> TensorMemory::allocate(std::uint32_t count, bool high,
                                                    const Agent& owner, TensorMemory* pair) {
  const std::uint64_t taken = taken_ | (pair ? pair->taken_ : 0);
  for (std::uint32_t i = 0; i < columns / count; ++i) {
    const std::uint32_t column = high ? columns - (i + 1) * count : i * count;
    if (taken & granules(column, count)) continue;
    take(column, count, owner);
    if (pair) pair->take(column, count, owner);
    return column;
  }
  return std::nullopt;
}

void TensorMemory::take(std::uint32_t column, std::uint32_t count, const Agent& owner) {
  taken_ |= granules(column, count);
  allocations_.push_back({column, count, owner});
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    shadow_->renew(std::uint64_t{4} * word_of(lane, column), std::uint64_t{4} * count);
}

const TensorAllocation* TensorMemory::find(std::uint32_t column) const {
  for (const TensorAllocation& each : allocations_)
    if (each.column == column) return &each;
  return nullptr;
}

void TensorMemory::free(std::uint32_t column) {
  const auto found = std::find_if(allocations_.begin(), allocations_.end(),
                                  [&](const auto& each) { return each.column == column; });
  taken_ &= ~granules(found->column, found->columns);
  allocations_.erase(found);
}

bool TensorMemory::holds(std::uint32_t column, std::uint32_t count) const {
  if (column >= columns || count > columns - column) return false;
  return (granules(column, count) & ~taken_) == 0;
}

}  // namespace microscale::emulator
