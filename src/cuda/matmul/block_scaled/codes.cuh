// Codes of one operand on their way to shared memory: 64 bytes of each of 128 rows a stage, 16
// bytes of four rows a thread, by cp.async. What is beyond the row's end is zero; rows that there
// are not repeat the last one, their sums are not stored.
#pragma once

#include <cstdint>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/matmul/block_scaled/place.cuh"

namespace microscale::cuda::block_scaled {

/// Spread: codes of 4 bits go to chunks of 16 elements in the first 8 of 16 bytes, as
/// ldmatrix.b4x16_p64 reads them: 32 bytes of a row are a stage.
template <bool Spread>
class CodeLoader {
 public:
  /// `first`: the tile's first row in memory; thread t copies from rows row_of(t / 4 + 32 i),
  /// counted from there.
  template <class RowOf>
  __device__ CodeLoader(const std::uint8_t* first, std::int64_t row_bytes, bool wide, int thread,
                        RowOf&& row_of)
      : row_bytes_(static_cast<int>(row_bytes)),
        chunk_(thread % 4 * piece),
        to_(chunk_at(thread / 4, thread % 4)),
        wide_(wide) {
#pragma unroll
    for (int i = 0; i < 4; ++i) row_[i] = first + row_of(thread / 4 + 32 * i) * row_bytes + chunk_;
  }

  /// Stage `stage` of the rows, to the operand's part of a stage at shared address `to`. Whole:
  /// rows are `wide` and do not end before the stage does.
  template <bool Whole>
  __device__ void copy(int stage, std::uint32_t to) const {
    const int at = stage * (4 * piece);
    const int left = Whole ? piece : row_bytes_ - at - chunk_;
    const std::uint32_t target = to + static_cast<std::uint32_t>(to_);
    if (Spread || (!Whole && !wide_)) {
      const auto bytes = static_cast<std::uint32_t>(left < 0 ? 0 : left < 8 ? left : 8);
      const auto more = static_cast<std::uint32_t>(left < 8 ? 0 : left < 16 ? left - 8 : 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t row = target + static_cast<std::uint32_t>(i * 32 * stage_row_bytes);
        ptx::cp_async_ca_shared_global_8(row, row_[i] + at, bytes);
        if (!Spread) ptx::cp_async_ca_shared_global_8(row + 8, row_[i] + at + 8, more);
      }
    } else {
      const std::uint32_t bytes = left < 16 ? 0 : 16;  // a wide row is whole chunks
#pragma unroll
      for (int i = 0; i < 4; ++i)
        ptx::cp_async_cg_shared_global_16(
            target + static_cast<std::uint32_t>(i * 32 * stage_row_bytes), row_[i] + at, bytes);
    }
  }

 private:
  static constexpr int piece = Spread ? 8 : 16;
  int row_bytes_;
  const std::uint8_t* row_[4];
  int chunk_;  // byte of a stage's part of a row
  int to_;
  bool wide_;
};

}  // namespace microscale::cuda::block_scaled
