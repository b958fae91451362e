// Atomics: lane by lane, each while the page is held, so they are atomic for every host thread.
#include <bit>
#include <cstring>

#include "emulator/memory/atomic_value.hpp"
#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {

void ClusterMemory::atomic(const Agent& agent, const WarpAccess& given, AtomicOp op,
                           AtomicType type, const LaneWords& operand, const LaneWords* compare,
                           LaneWords* old) {
  WarpAccess access = given;
  access.bytes = bytes_of(type);
  if (access.order == Order::weak) access.order = Order::relaxed;
  if (launch_.options.count) count(agent, access);
  before_strong(agent, access);
  const Toucher who = toucher(agent, access.order, access.scope);
  const auto bytes = static_cast<std::size_t>(access.bytes);
  for (std::uint32_t left = access.lanes; left; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto column = static_cast<std::size_t>(lane);
    const std::uint64_t address = access.address[lane];
    const auto value_of = [&](const LaneWords* words) {
      AtomicValue value{};
      for (std::size_t word = 0; words && word < (bytes + 3) / 4; ++word)
        value[word / 2] |= std::uint64_t{words->word[word][column]} << (word % 2 * 32);
      return value;
    };
    AtomicValue before{};
    Region region;
    if (aligned(agent, lane, address, bytes, Mode::update) &&
        resolve(agent, lane, address, bytes, Mode::update, region)) {
      touch(who, region, address - region.begin, bytes,
            {static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(bytes)}, Mode::update,
            nullptr, [&](std::uint8_t* data, std::uint64_t, std::uint64_t) {
              std::memcpy(&before, data, bytes);
              const AtomicValue after = apply(op, type, before, value_of(&operand),
                                              value_of(compare), region.kind == SpaceKind::global);
              std::memcpy(data, &after, bytes);
            });
    }
    if (old)
      for (std::size_t word = 0; word < (bytes + 3) / 4; ++word)
        old->word[word][column] = static_cast<std::uint32_t>(before[word / 2] >> (word % 2 * 32));
  }
  after_strong(agent, access);
}

}  // namespace microscale::emulator
