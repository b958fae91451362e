// The words that loads, stores, atomics and copies share: spaces, orders, scopes, cache hints,
// addresses.
#pragma once

#include "emulator/machine/binder.hpp"
#include "emulator/memory/access.hpp"

namespace microscale::emulator {

/// Takes .global, .shared, .shared::cta, ...; generic if there is none.
ptx::Space take_space(Binder& binder);
/// Takes .volatile, .relaxed, .acquire, ...; `none` if there is none.
Order take_order(Binder& binder, Order none);
MemoryScope take_scope(Binder& binder, MemoryScope none);
/// Takes whatever only says how caches should behave. Whether it comes with a policy operand.
bool take_cache_hints(Binder& binder);

/// An address operand: its row in Op::`slot`, whether that row is 64 bits wide, the offset.
struct BoundAddress {
  Slot slot = 0;
  bool wide = false;
  std::int64_t offset = 0;
  bool constant = false;  // offset is all there is
};
/// Refuses if the operand is no address, or names a variable of another space.
BoundAddress bind_address(Binder& binder, const ptx::Operand& operand, ptx::Space space);

}  // namespace microscale::emulator
