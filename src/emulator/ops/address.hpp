// Addresses as instructions give them: a row, an immediate, a space.
#pragma once

#include <cstdint>

#include "emulator/machine/block.hpp"

namespace microscale::emulator {

/// What a memory instruction is, packed into Op::extra.
struct AccessBits {
  std::uint32_t bits = 0;

  ptx::Space space() const { return static_cast<ptx::Space>(bits & 7); }
  bool wide_address() const { return bits >> 3 & 1; }
  int element_log2() const { return bits >> 4 & 7; }  // bytes of an element
  bool sign_extends() const { return bits >> 7 & 1; }
  int container_log2() const { return bits >> 8 & 3; }  // 16 << it bits
  Order order() const { return static_cast<Order>(bits >> 10 & 7); }
  MemoryScope scope() const { return static_cast<MemoryScope>(bits >> 13 & 3); }
  std::uint32_t rest() const { return bits >> 16; }  // the instruction's own

  static AccessBits make(ptx::Space space, bool wide, int element_log2, bool sign,
                         int container_log2, Order order, MemoryScope scope,
                         std::uint32_t rest = 0) {
    return {static_cast<std::uint32_t>(space) | wide << 3 |
            static_cast<std::uint32_t>(element_log2) << 4 | sign << 7 |
            static_cast<std::uint32_t>(container_log2) << 8 |
            static_cast<std::uint32_t>(order) << 10 | static_cast<std::uint32_t>(scope) << 13 |
            rest << 16};
  }
};

/// A shared address, 32 bits, as a generic one. mapa puts 1 + the block's rank into the top byte.
inline std::uint64_t generic_shared(std::uint32_t address) {
  const std::uint32_t rank = address >> 24;
  return rank ? cluster_shared(rank - 1, address & 0xffffffu) : shared_window | address;
}

/// The generic addresses of all lanes: row `slot` (64-bit if `wide`) plus `offset`, in `space`.
void generic_addresses(const Warp& warp, Slot slot, bool wide, ptx::Space space,
                       std::int64_t offset, std::uint64_t* out);

/// One lane's.
inline std::uint64_t generic_address(const Warp& warp, Slot slot, bool wide, ptx::Space space,
                                     std::int64_t offset, int lane) {
  const std::uint64_t base = wide ? warp.row64(slot)[lane] : warp.row32(slot)[lane];
  const std::uint64_t address = base + static_cast<std::uint64_t>(offset);
  switch (space) {
    case ptx::Space::shared:
      return generic_shared(static_cast<std::uint32_t>(address));
    case ptx::Space::local:
      return local_window | (address & ~window_mask);
    case ptx::Space::constant:
      return constant_window | (address & ~window_mask);
    case ptx::Space::param:
      return param_window | (address & ~window_mask);
    default:
      return address;
  }
}

}  // namespace microscale::emulator
