// A warp's part of a row of a in shared memory (unpacked_kernel.cuh): its own columns of all
// stages, of up to two matrices at once. The warp makes it itself, so it waits for no other warp.
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/plan.hpp"
#include "cuda/matmul/few_rows/unpacked_units.cuh"

namespace microscale::cuda::few_rows {

template <class Units>
class UnpackedRow {
  static constexpr int rounds_ahead = 2;

 public:
  /// What a lane loads at once: its 32 elements of stages lane / 8 and lane / 8 + 4; zeros beyond
  /// the row's end, which are not multiplied.
  struct Raw {
    RawElements rounds[rounds_ahead];
  };

  /// `base`: shared memory.
  __device__ UnpackedRow(const UnpackedArgs& args, std::uint32_t base, int warp)
      : args_(args), base_(base), warp_(warp) {}

  __device__ Raw load(std::uint32_t matrix) const {
    Raw raw;
#pragma unroll
    for (int round = 0; round < rounds_ahead; ++round) raw.rounds[round] = load(matrix, round);
    return raw;
  }

  /// Puts a row where `at` finds it. Returns what the warp's sums of it are to be multiplied by.
  __device__ float make(std::uint32_t matrix, const Raw& raw, int buffer) const {
    const int rounds = (args_.stages + 3) / 4;
    unsigned int largest = 0;
#pragma unroll
    for (int round = 0; round < rounds_ahead; ++round)
      largest = max(largest, Units::largest(args_, raw.rounds[round]));
    for (int round = rounds_ahead; round < rounds; ++round)
      largest = max(largest, Units::largest(args_, load(matrix, round)));
    largest = __reduce_max_sync(0xFFFFFFFFu, largest);
    __syncwarp();  // what was in the buffer is read
#pragma unroll
    for (int round = 0; round < rounds_ahead; ++round)
      store(raw.rounds[round], largest, round, buffer);
    for (int round = rounds_ahead; round < rounds; ++round)
      store(load(matrix, round), largest, round, buffer);
    __syncwarp();
    return Units::largest_to_factor(args_, largest);
  }

  __device__ UnitsPlace at(int buffer, int stage) const {
    const int index = (buffer * unpacked_warps + warp_) * args_.stages + stage;
    return {base_ + args_.shared.units + index * stage_units_bytes,
            base_ + args_.shared.unit_scales + index * stage_unit_scales_bytes};
  }

 private:
  __device__ static int stage_of(int round) { return lane() / 8 + 4 * round; }
  __device__ int column_of(int stage) const {
    return stage * stage_columns + warp_ * warp_columns + 32 * (lane() % 8);
  }
  __device__ RawElements load(std::uint32_t matrix, int round) const {
    const int column = column_of(stage_of(round));
    if (column >= args_.k) return {};
    return Units::load(args_, matrix, column);
  }
  __device__ void store(const RawElements& raw, unsigned int largest, int round, int buffer) const {
    const int stage = stage_of(round), half = lane() / 4 % 2;
    if (column_of(stage) >= args_.k) return;
    UnitsPlace to = at(buffer, stage);
    to.units += half * half_units_bytes;
    to.scales += half * half_unit_scales_bytes;
    Units::store(args_, raw, largest, lane() % 4, to);
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }

  const UnpackedArgs& args_;
  const std::uint32_t base_;
  const int warp_;
};

}  // namespace microscale::cuda::few_rows
