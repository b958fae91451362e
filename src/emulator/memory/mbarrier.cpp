#include "emulator/memory/mbarrier.hpp"

namespace microscale::emulator {

const char* sentence_of(MbarrierError error) {
  switch (error) {
    case MbarrierError::none:
      return "nothing is wrong";
    case MbarrierError::bad_count:
      return "the count must be 1 to 1048575";
    case MbarrierError::too_many:
      return "more arrivals than its count in one phase";
    case MbarrierError::too_many_bytes:
      return "the transaction count must stay within 1048575 bytes";
    case MbarrierError::stale_state:
      return "the state is not of this phase or the one before";
  }
  return "unknown";
}

MbarrierError MbarrierState::init(std::uint32_t count) {
  if (count == 0 || count > largest_count) return MbarrierError::bad_count;
  expected_ = pending_ = count;
  bytes_ = 0;
  phase_ = 0;
  return MbarrierError::none;
}

MbarrierError MbarrierState::arrive(std::uint32_t count) {
  if (count == 0 || count > largest_count) return MbarrierError::bad_count;
  if (count > pending_) return MbarrierError::too_many;
  pending_ -= count;
  advance();
  return MbarrierError::none;
}

MbarrierError MbarrierState::expect(std::uint64_t bytes) {
  if (bytes > largest_count ||
      bytes_ + static_cast<std::int64_t>(bytes) > std::int64_t{largest_count})
    return MbarrierError::too_many_bytes;
  bytes_ += static_cast<std::int64_t>(bytes);
  return MbarrierError::none;
}

MbarrierError MbarrierState::complete(std::uint64_t bytes) {
  if (bytes > largest_count ||
      bytes_ - static_cast<std::int64_t>(bytes) < -std::int64_t{largest_count})
    return MbarrierError::too_many_bytes;
  bytes_ -= static_cast<std::int64_t>(bytes);
  advance();
  return MbarrierError::none;
}

MbarrierError MbarrierState::raise() {
  if (pending_ == largest_count) return MbarrierError::bad_count;
  ++pending_;
  return MbarrierError::none;
}

void MbarrierState::advance() {
  if (pending_ != 0 || bytes_ != 0) return;
  ++phase_;
  pending_ = expected_;
}

}  // namespace microscale::emulator
