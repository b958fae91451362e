// mov of counters that run and of 128 bits, cvta, mapa, getctarank, isspacep.
#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// A 64-bit register from a 32-bit row.
Step widen(const Op& op, Warp& warp, u32 lanes) {
  const u32* a = warp.row32(op.a);
  u64* d = warp.row64(op.d);
  for (int i = 0; i < 32; ++i) d[i] = (lanes & lane_bit[i]) ? a[i] : d[i];
  return Step::next;
}

/// Clocks and timers count the warp's instructions. op.value: bits to shift right.
template <class D>
Step clock(const Op& op, Warp& warp, u32 lanes) {
  const D now = static_cast<D>(warp.now() >> op.value);
  D* d = reinterpret_cast<D*>(warp.row(op.d));
  for (int i = 0; i < 32; ++i) d[i] = (lanes & lane_bit[i]) ? now : d[i];
  return Step::next;
}

Step cvta_shared(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    warp.row64(op.d)[i] = generic_shared(static_cast<u32>(warp.row64(op.a)[i]));
  }
  return Step::next;
}

/// op.value: the window, 0 for global.
Step isspacep(const Op& op, Warp& warp, u32 lanes) {
  u32 mask = 0;
  for (int i = 0; i < 32; ++i)
    if ((warp.row64(op.a)[i] & window_mask) == static_cast<u64>(op.value)) mask |= lane_bit[i];
  warp.set_predicate(op.d, lanes, mask);
  return Step::next;
}

/// op.list: low and high destination, low and high source.
Step move_128(const Op& op, Warp& warp, u32 lanes) {
  const u64 *low = warp.row64(op.list[2]), *high = warp.row64(op.list[3]);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u64 values[2] = {low[i], high[i]};
    warp.row64(op.list[0])[i] = values[0];
    warp.row64(op.list[1])[i] = values[1];
  }
  return Step::next;
}

/// The block whose shared memory an address is in: by its rank, or the thread's own.
template <class T, bool Generic>
Step block_rank(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u64 given = reinterpret_cast<const T*>(warp.row(op.a))[i];
    const u64 address = Generic ? given : generic_shared(static_cast<u32>(given));
    if ((address & window_mask) != shared_window)
      return warp.report(op, FindingKind::misuse, i,
                         "getctarank of an address that is in no block's shared memory", true);
    warp.row32(op.d)[i] = names_block(address) ? rank_of(address) : warp.block().rank();
  }
  return Step::next;
}

template <class T, bool Generic>
Step mapa(const Op& op, Warp& warp, u32 lanes) {
  const u32 blocks = warp.block().launch().shape.cluster_blocks();
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u32 rank = warp.row32(op.b)[i];
    if (rank >= blocks)
      return warp.report(op, FindingKind::misuse, i, "mapa names a block that the cluster has not",
                         true);
    const T address = reinterpret_cast<const T*>(warp.row(op.a))[i];
    const u64 there = Generic ? cluster_shared(rank, address & 0xffffffu)
                              : (u64{rank} + 1) << 24 | (address & 0xffffffu);
    reinterpret_cast<T*>(warp.row(op.d))[i] = static_cast<T>(there);
  }
  return Step::next;
}

}  // namespace

Family move_family() {
  static constexpr HandlerEntry entries[] = {
      {"widen.32", widen},
      {"clock.32", clock<u32>},
      {"clock.64", clock<u64>},
      {"cvta.shared", cvta_shared},
      {"isspacep", isspacep},
      {"mapa.shared.32", mapa<u32, false>},
      {"mapa.shared.64", mapa<u64, false>},
      {"mapa.generic.64", mapa<u64, true>},
      {"mov.128", move_128},
      {"getctarank.shared.32", block_rank<u32, false>},
      {"getctarank.shared.64", block_rank<u64, false>},
      {"getctarank.generic.64", block_rank<u64, true>},
  };
  return entries;
}

}  // namespace microscale::emulator
