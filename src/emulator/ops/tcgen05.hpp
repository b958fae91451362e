// What the handlers of tcgen05 and their decoder agree on, and what the handlers share.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/machine/warp.hpp"
#include "emulator/memory/access.hpp"
#include "emulator/tensor/tcgen05.hpp"
#include "emulator/tensor/tensor_fragments.hpp"

namespace microscale::emulator {

/// A tcgen05.mma, as Op::value holds it. Op::c: the predicate of enable-input-d. Op::list: the rows
/// of D, A, B, the descriptor, and of the scales of A and B, each followed by an offset (0 where
/// the operand is no address).
struct Tcgen05Mma {
  enum Operand : std::uint32_t { d, a, b, descriptor, scale_a, scale_b, operands };
  tensor::Tcgen05Name name;

  std::int64_t pack() const {
    return static_cast<std::int64_t>(name.kind) | name.blocks << 4 | name.scale_block << 8 |
           static_cast<std::int64_t>(name.a_in_tensor) << 16;
  }
  static Tcgen05Mma unpack(std::int64_t value) {
    return {{static_cast<tensor::Tcgen05Kind>(value & 15), static_cast<int>(value >> 4 & 15),
             static_cast<int>(value >> 8 & 255), (value >> 16 & 1) != 0}};
  }
};

/// A tensor memory address: lane in the upper half, column in the lower.
struct TensorAddress {
  std::uint32_t lane = 0, column = 0;
  constexpr explicit TensorAddress(std::uint32_t bits) : lane(bits >> 16), column(bits & 0xFFFF) {}
};

/// A value of 32 bits that all of `lanes` must have alike; false after a finding.
bool same_in_warp(const Op& op, Warp& warp, Slot slot, std::uint32_t lanes, const char* what,
                  std::uint32_t& value);
/// Of what one thread issues: a finding where several lanes do.
Step one_lane(const Op& op, Warp& warp, std::uint32_t lanes);
/// Of .cta_group `blocks`: a finding where 2 and the cluster is not made of pairs.
Step check_pair(const Op& op, Warp& warp, std::uint32_t blocks);
/// Whether a shared memory descriptor says what can be; reports what cannot.
Step check_matrix(const Op& op, Warp& warp, int lane, const char* matrix, std::uint64_t bits,
                  int lines, bool mn_major, int element_bytes);

/// The ranks of the blocks that an instruction of .cta_group `blocks` of block `rank` works for.
inline std::vector<std::uint32_t> blocks_of(std::uint32_t blocks, std::uint32_t rank) {
  if (blocks == 1) return {rank};
  return {rank & ~1u, rank | 1u};
}

/// The generic address, for `agent`, of byte `address` of the shared memory of block `rank`.
inline std::uint64_t shared_of(const Agent& agent, std::uint32_t rank, std::uint32_t address) {
  return rank == agent.rank ? shared_window | address : cluster_shared(rank, address);
}

/// The handler of tcgen05.mma (tcgen05_mma.cpp).
Step tcgen05_multiply(const Op& op, Warp& warp, std::uint32_t lanes);

}  // namespace microscale::emulator
