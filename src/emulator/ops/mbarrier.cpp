// mbarrier objects and the bulk copies that complete at them; each lane for itself. The objects are
// in memory/cluster_mbarrier.cpp.
#include "emulator/ops/mbarrier.hpp"

#include <bit>

#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// each(lane, address of the mbarrier), the lowest lane first. op.a, op.value, op.extra: the
/// address.
template <class Each>
void each_barrier(const Op& op, Warp& warp, u32 lanes, const Each& each) {
  const AccessBits access{op.extra};
  for (u32 left = lanes; left; left &= left - 1) {
    const int lane = std::countr_zero(left);
    each(lane, generic_address(warp, op.a, access.wide_address(), access.space(), op.value, lane));
  }
}

/// op.b: the count of arrivals.
Step init(const Op& op, Warp& warp, u32 lanes) {
  each_barrier(op, warp, lanes, [&](int lane, u64 address) {
    warp.block().memory().mbarrier_init(warp.agent(op), lane, address, warp.row32(op.b)[lane]);
  });
  return Step::next;
}

Step invalidate(const Op& op, Warp& warp, u32 lanes) {
  each_barrier(op, warp, lanes, [&](int lane, u64 address) {
    warp.block().memory().mbarrier_invalidate(warp.agent(op), lane, address);
  });
  return Step::next;
}

/// op.d: the state; op.b: arrivals, op.c: bytes to expect before them.
Step arrive(const Op& op, Warp& warp, u32 lanes) {
  each_barrier(op, warp, lanes, [&](int lane, u64 address) {
    warp.row64(op.d)[lane] = warp.block().memory().mbarrier_arrive(
        warp.agent(op), lane, address, warp.row32(op.b)[lane], warp.row32(op.c)[lane]);
  });
  return Step::next;
}

/// op.b: bytes.
Step complete(const Op& op, Warp& warp, u32 lanes) {
  each_barrier(op, warp, lanes, [&](int lane, u64 address) {
    warp.block().memory().mbarrier_complete(warp.agent(op), lane, address, warp.row32(op.b)[lane]);
  });
  return Step::next;
}

/// op.mode: 1 without raising the count of pending arrivals.
Step copies_arrive(const Op& op, Warp& warp, u32 lanes) {
  each_barrier(op, warp, lanes, [&](int lane, u64 address) {
    warp.block().memory().cp_async_mbarrier_arrive(warp.agent(op), lane, address, op.mode == 0);
  });
  return Step::next;
}

/// op.a to (op.value), op.b from (list 0, 1), size list 2, mbarrier list 3 (4, 5); op.extra:
/// BulkBits.
Step bulk(const Op& op, Warp& warp, u32 lanes) {
  const auto offset = [&](int at) {
    return static_cast<std::int64_t>(u64{op.list[at + 1]} << 32 | op.list[at]);
  };
  const auto space = [&](u32 bit) {
    return (op.extra & bit) ? ptx::Space::shared : ptx::Space::global;
  };
  for (u32 left = lanes; left; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const u64 to =
        generic_address(warp, op.a, op.extra & bulk_wide_to, space(bulk_to_shared), op.value, lane);
    const u64 from = generic_address(warp, op.b, op.extra & bulk_wide_from, space(bulk_from_shared),
                                     offset(0), lane);
    const u64 barrier = (op.extra & bulk_has_barrier)
                            ? generic_address(warp, op.list[3], op.extra & bulk_wide_barrier,
                                              ptx::Space::shared, offset(4), lane)
                            : 0;
    warp.block().memory().bulk_copy(warp.agent(op), lane, to, from, warp.row32(op.list[2])[lane],
                                    barrier);
  }
  return Step::next;
}

}  // namespace

/// op.d: the predicate; op.b: the state, or the parity.
Step mbarrier_wait(const Op& op, Warp& warp, u32 lanes) {
  u32 complete = 0;
  ClusterMemory& memory = warp.block().memory();
  each_barrier(op, warp, lanes, [&](int lane, u64 address) {
    const bool is =
        (op.mode & by_parity)
            ? memory.mbarrier_test_parity(warp.agent(op), lane, address, warp.row32(op.b)[lane])
            : memory.mbarrier_test(warp.agent(op), lane, address, warp.row64(op.b)[lane]);
    complete |= u32{is} << lane;
  });
  if (!complete && (op.mode & may_block)) return Step::wait;
  if (op.d) warp.set_predicate(op.d, lanes, complete);
  return Step::next;
}

Family mbarrier_family() {
  static constexpr HandlerEntry entries[] = {
      {"mbarrier.init", init},          {"mbarrier.inval", invalidate},
      {"mbarrier.arrive", arrive},      {"mbarrier.complete_tx", complete},
      {"mbarrier.wait", mbarrier_wait}, {"cp.async.mbarrier.arrive", copies_arrive},
      {"cp.async.bulk", bulk},
  };
  return entries;
}

}  // namespace microscale::emulator
