// An asynchronous copy on its way: captured when it was issued, not yet landed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/memory/access.hpp"
#include "emulator/memory/order.hpp"

namespace microscale::emulator {

/// One contiguous piece that will be written.
struct AsyncPiece {
  std::uint8_t* to = nullptr;
  std::uint32_t from = 0, bytes = 0;  // in AsyncCopy::data
};

struct AsyncCopy {
  AsyncKind kind = AsyncKind::bulk;
  std::uint32_t warp = 0;         // of the cluster, who waits for its group
  std::uint32_t group = 0;        // number of the group, when it completes in one
  std::uint64_t barrier = 0;      // key of the mbarrier where it completes; 0: in a group
  std::uint64_t transaction = 0;  // bytes by which the mbarrier is told; 0: an arrive instead
  std::uint64_t sequence = 0;     // in order of issue
  Agent issuer;
  bool to_shared = false;
  bool arrive = false;  // cp.async.mbarrier.arrive, tcgen05.commit: no bytes, an arrive
  // Of a tcgen05.commit: what they know who wait for it, once it has arrived.
  std::unique_ptr<const Knowledge> known = nullptr;
  std::vector<std::uint8_t> data;
  std::vector<AsyncPiece> pieces;

  /// Whether copies of its kind and warp land in the order of issue.
  bool in_order() const { return kind == AsyncKind::tcgen05; }
  void land() const;
  /// What stands at the destination until it lands: a pattern no kernel expects.
  void poison() const;
};

inline constexpr std::uint8_t poison_byte = 0xcb;

}  // namespace microscale::emulator
