#include "cuda/device/call_ticket.hpp"

#include <atomic>
#include <random>

namespace microscale::cuda {

std::uint64_t next_ticket() {
  static std::atomic<std::uint64_t> last = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  const std::uint64_t ticket = last.fetch_add(odd) + odd;
  return ticket != 0 ? ticket : next_ticket();
}

}  // namespace microscale::cuda
