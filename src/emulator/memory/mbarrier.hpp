// The arithmetic of an mbarrier object: phases, pending arrivals, transaction bytes.
#pragma once

#include <cstdint>

namespace microscale::emulator {

enum class MbarrierError : std::uint8_t {
  none,
  bad_count,       // init or arrive with a count outside 1 .. 2^20 - 1
  too_many,        // more arrivals than the phase expects
  too_many_bytes,  // the transaction count leaves -(2^20 - 1) .. 2^20 - 1
  stale_state      // a wait for a phase that is neither this one nor the one before
};
const char* sentence_of(MbarrierError error);

class MbarrierState {
 public:
  static constexpr std::uint32_t largest_count = (1u << 20) - 1;

  MbarrierError init(std::uint32_t count);
  MbarrierError arrive(std::uint32_t count);
  MbarrierError expect(std::uint64_t bytes);    // transaction bytes to come
  MbarrierError complete(std::uint64_t bytes);  // ... that came
  /// One more arrival is expected in this phase (cp.async.mbarrier.arrive without .noinc).
  MbarrierError raise();

  /// Phases completed since init. The current one has the parity phase() & 1.
  std::uint64_t phase() const { return phase_; }
  std::uint32_t pending() const { return pending_; }
  std::int64_t transaction_bytes() const { return bytes_; }

  /// Whether the phase in which `state` was given is complete.
  bool test(std::uint64_t state) const { return phase_ > state; }
  bool test_parity(std::uint32_t parity) const { return (phase_ & 1) != (parity & 1); }

 private:
  void advance();
  std::uint32_t expected_ = 0, pending_ = 0;
  std::int64_t bytes_ = 0;
  std::uint64_t phase_ = 0;
};

}  // namespace microscale::emulator
