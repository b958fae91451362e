// What both kinds of products (products_f16.cuh, products_fp8.cuh) do alike.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/attention/prefill/query.cuh"
#include "cuda/attention/prefill/rows.cuh"

namespace microscale::cuda::attention::prefill {

/// The two warpgroups take turns at issuing products, as often the one as the other, so that one
/// turns scores into probabilities while the other's products run.
class PrefillTurns {
 public:
  __device__ explicit PrefillTurns(int group) : group_(group) {}
  __device__ void begin() const {
    if (group_ == 1) pass();
  }
  __device__ void wait() const { ptx::bar_sync(1 + group_, 256); }
  __device__ void pass() const { ptx::bar_arrive(2 - group_, 256); }
  __device__ void end() const {
    if (group_ == 0) wait();  // the other one's last
  }

 private:
  int group_;
};

/// A warpgroup's place in an item and among the rings.
template <class RingsOf, class RowsOf>
class PrefillPart {
 public:
  using Rings = RingsOf;
  using Rows = RowsOf;
  static constexpr int keys = Rings::keys;

  __device__ PrefillPart(const AttentionPrefillArgs& args, const Rings& rings)
      : args_(args),
        rings_(rings),
        group_(__shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0)) {}

  __device__ Rings& rings() { return rings_; }
  __device__ Rows& rows() { return rows_; }
  __device__ PrefillTurns turns() const { return PrefillTurns(group_); }

  __device__ void begin(const PrefillItem& item, int row) {
    rows_.start(args_, item, row, rings_.factors());
    inner_begin_ = item.begin(args_, min(group_ * 64 + 63, item.count - 1));
    inner_end_ = item.end(args_, min(group_ * 64, item.count - 1));
  }

 protected:
  __device__ PrefillTile tile_info() const {
    const std::uint32_t at = rings_.k_tile() + Rings::tile_bytes;
    const uint4 a = ptx::ld_shared_v4(at), b = ptx::ld_shared_v4(at + 16);
    return {static_cast<std::int32_t>(a.x),
            static_cast<std::int32_t>(a.y),
            static_cast<std::int32_t>(a.z),
            0,
            {b.x, b.y, b.z, b.w}};
  }
  /// Whether all rows see all keys of the tile at hand.
  __device__ bool is_inner(int tile) const {
    const std::uint32_t whole = ptx::ld_shared_b32(rings_.k_tile() + Rings::tile_bytes + 8);
    return whole != 0 && tile * keys >= inner_begin_ && (tile + 1) * keys <= inner_end_;
  }
  template <class Ring>
  __device__ static void release(Ring& ring) {
    ring.release(ring.stage(), true);
    ring.next();
  }

  /// Stores what is never read, but what depends on all exponentials: the assembler leaves it in
  /// front of the wait behind it, and would move that in front of them, where they had to wait for
  /// the products that they shall run beside.
  __device__ void end_of_exponentials() const {
    ptx::st_shared_f32(rings_.base + Rings::shared.marks + threadIdx.x * 4,
                       __fadd_rn(rows_.weight[0], rows_.weight[1]));
  }

  const AttentionPrefillArgs& args_;
  Rings rings_;
  const int group_;
  int inner_begin_, inner_end_;  // keys that all rows of the warpgroup see
  Rows rows_;
};

}  // namespace microscale::cuda::attention::prefill
