// A hash of the values that blocks stand for, whatever codes, scales and container hold them: the
// same before and after a conversion that changed no value.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "checkpoint/containers/stored_weight.hpp"
#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/tile.hpp"

namespace microscale {

/// Of the values of one matrix. Blocks are hashed as sixteen codes of four bits (or eight of eight)
/// and the number that each is multiplied by, in FP32 as readers compute it; four-bit codes are
/// first doubled as often as E2M1 allows, and that number halved, so that equal values are equal
/// whatever scale they came with. Two matrices with equal hashes decode to the same FP32 values, up
/// to chance (2^-64), where blocks of eight bits have the same codes.
class ValueHash {
 public:
  /// `name`: of the module, so that two matrices in each other's place are noticed.
  ValueHash(std::string_view name, const BlockCoding& coding);

  /// Of whole blocks from element `first` of the matrix on. The sum over all blocks, in any order,
  /// is the hash of the matrix.
  std::uint64_t of(std::int64_t first, std::span<const std::uint8_t> codes,
                   std::span<const std::uint8_t> scales) const;

 private:
  void turn(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales,
            std::span<std::uint8_t> to) const;

  BlockCoding coding_;
  std::uint64_t key_ = 0;
  // By scale byte: what it adds to the hash, the signs of a byte of codes that it turns, and which
  // bits of it count.
  std::array<std::uint64_t, 256> terms_{};
  std::array<std::uint8_t, 256> flip_{}, keep_{};
  bool turns_ = false;  // a positive scale does, too
};

/// The first block whose scale, or a code of eight bits in it, stands for NaN; -1: none. Without
/// `codes` only scales are looked at.
std::int64_t first_nan(Format format, std::span<const std::uint8_t> codes,
                       std::span<const std::uint8_t> scales);

/// Of a tile of `slice`, as read_block_tile gives it: the same whether experts lie one by one or in
/// a stack, where rows of gate and up take turns.
std::uint64_t hash_of_tile(const MatrixSlice& slice, const Tile& tile, const BlockCoding& coding,
                           std::span<const std::uint8_t> codes,
                           std::span<const std::uint8_t> scales);

}  // namespace microscale
