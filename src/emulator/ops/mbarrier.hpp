// What the handlers of mbarrier and bulk copies agree on with their decoder.
#pragma once

#include <cstdint>

#include "emulator/ops/handler.hpp"

namespace microscale::emulator {

/// Op::mode of mbarrier.test_wait and try_wait.
enum MbarrierWaitBits : std::uint8_t { by_parity = 1, may_block = 2 };

/// Op::extra of cp.async.bulk: which operands stand in 64-bit rows, which spaces, what completes
/// it.
enum BulkBits : std::uint32_t {
  bulk_wide_to = 1,
  bulk_wide_from = 2,
  bulk_wide_barrier = 4,
  bulk_has_barrier = 8,
  bulk_to_shared = 16,
  bulk_from_shared = 32
};

/// test_wait and try_wait. A try_wait that finds no lane's phase complete parks the lanes
/// (Step::wait).
Step mbarrier_wait(const Op& op, Warp& warp, std::uint32_t lanes);

}  // namespace microscale::emulator
