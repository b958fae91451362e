// What a warp must know of the barrier instructions that its groups wait in.
#pragma once

#include <cstdint>

#include "emulator/ops/handler.hpp"

namespace microscale::emulator {

/// The handler of bar.warp.sync, by which a warp recognises it, and the mask that such an `op`
/// names.
Step warp_barrier(const Op& op, Warp& warp, std::uint32_t lanes);
std::uint32_t warp_barrier_mask(const Warp& warp, const Op& op, std::uint32_t lanes);
/// The lanes of such a mask have met.
void on_warp_barrier(Warp& warp, const Op& op);

/// The result of bar.red for lanes that waited; nothing for other instructions.
void deliver_reduction(Warp& warp, const Op& op, std::uint32_t lanes, std::uint32_t count, bool all,
                       bool any);

}  // namespace microscale::emulator
