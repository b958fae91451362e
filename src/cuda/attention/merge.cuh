// Sums of warps over their chunks, and of blocks over their parts of the keys, into results.
#pragma once

#include "cuda/attention/rows.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/ptx/control.cuh"

namespace microscale::cuda::attention {

__device__ inline void decode_add(float4& sum, const float4& part, float share) {
  sum.x = __fadd_rn(sum.x, __fmul_rn(part.x, share));
  sum.y = __fadd_rn(sum.y, __fmul_rn(part.y, share));
  sum.z = __fadd_rn(sum.z, __fmul_rn(part.z, share));
  sum.w = __fadd_rn(sum.w, __fmul_rn(part.w, share));
}

/// Sums of a block's warps, in their order: [warp][row][D], then reference and weight of
/// [warp][row], of `count` rows. each(row, element, reference, weight, sums): of four elements.
template <int D, int Rows, class Each>
__device__ void merge_warps(const float* sums, int count, Each&& each) {
  const float* const marks = sums + decode_warps * Rows * D;
  for (int i = static_cast<int>(threadIdx.x); i < count * (D / 4); i += decode_threads) {
    const int row = i / (D / 4), element = i % (D / 4) * 4;
    float2 mark[decode_warps];
    float4 of[decode_warps];
#pragma unroll
    for (int w = 0; w < decode_warps; ++w) {
      mark[w] = *reinterpret_cast<const float2*>(marks + (w * Rows + row) * 2);
      of[w] = *reinterpret_cast<const float4*>(sums + (w * Rows + row) * D + element);
    }
    float reference = decode_no_reference, weight = 0.0f;
    float4 sum{};
#pragma unroll
    for (int w = 0; w < decode_warps; ++w) reference = fmaxf(reference, mark[w].x);
#pragma unroll
    for (int w = 0; w < decode_warps; ++w) {
      const float share = ptx::ex2_approx_ftz_f32(__fsub_rn(mark[w].x, reference));
      weight = __fadd_rn(weight, __fmul_rn(mark[w].y, share));
      decode_add(sum, of[w], share);
    }
    each(row, element, reference, weight, sum);
  }
}

/// What blocks put to memory of their parts of an item's keys: for each part and row sums, and a
/// pair of reference and weight.
template <int D, int Rows>
class DecodeParts {
 public:
  __device__ DecodeParts(const AttentionDecodeArgs& args, int item)
      : sums_(args.partial + static_cast<std::int64_t>(item) * args.splits * (Rows * D)),
        marks_(args.partial + decode_sums_floats(args.items, args.splits, Rows, D) +
               static_cast<std::int64_t>(item) * args.splits * (Rows * 2)) {}

  __device__ float4* sums(int part, int row, int element) const {
    return reinterpret_cast<float4*>(sums_ + (part * Rows + row) * D + element);
  }
  __device__ float2* mark(int part, int row) const {
    return reinterpret_cast<float2*>(marks_ + (part * Rows + row) * 2);
  }

 private:
  float* sums_;
  float* marks_;
};

/// Whether the parts of a row have been put.
__device__ inline TicketFlags decode_flags(const AttentionMergedArgs& args, int item, int row) {
  return {args.flags + (static_cast<std::int64_t>(item) * args.merged_rows + row) * args.splits, 1,
          args.ticket};
}

/// Merges the parts of a row: blocks of the same grid behind those that decode, so that they wait
/// for such alone as have begun before them. A warp has a quarter of the row's elements, four a
/// lane; groups of lanes take every group-th part each, then groups are added. The next grid is let
/// in when the parts are there: its blocks, come earlier, find room on some multiprocessors alone.
template <int D, int Rows>
class AttentionDecodeMerge {
 public:
  /// A row of item `number`, whose parts are there.
  __device__ static void merge(const AttentionDecodeArgs& args, const DecodeItem& item, int row) {
    AttentionDecodeMerge merge(args, item.index, row);
    merge.ask();
    merge.refer();
    merge.add();
    merge.store(args, item);
  }

  /// `index`: of the blocks that merge.
  __device__ static void run(const AttentionMergedArgs& args, int index) {
    const int number = index / args.merged_rows, row = index - number * args.merged_rows;
    const DecodeItem item(args, number, Rows);
    if (row >= item.count) return;
    const TicketFlags flags = decode_flags(args, number, row);
    const int parts = args.splits;  // for all the compiler knows, stores change args
    AttentionDecodeMerge merge(args, number, row);
    for (int part = merge.lane_; part < parts; part += 32)
      while (!flags.is_set(part)) ptx::nanosleep(40);
    __syncwarp();
    ptx::griddepcontrol_launch_dependents();
    merge.ask();
    merge.refer();
    merge.add();
    merge.store(args, item);
    __syncthreads();
    for (int part = static_cast<int>(threadIdx.x); part < parts; part += decode_threads)
      flags.forget(part);
  }

 private:
  static constexpr int of_group = D / 16, groups = 32 / of_group;  // lanes
  // Parts come 32 at a time, a pass, of which each lane has a mark and each group so many turns.
  // Those of the first passes are asked for in front of any use.
  static constexpr int turns = 32 / groups, asked = 16 / turns;
  static_assert(groups * turns == 32 && asked >= 1);

  __device__ AttentionDecodeMerge(const AttentionDecodeArgs& args, int item, int row)
      : parts_(args.splits),
        row_(row),
        lane_(static_cast<int>(threadIdx.x & 31)),
        group_(lane_ / of_group),
        element_(static_cast<int>(threadIdx.x / 32) * (D / 4) + lane_ % of_group * 4),
        of_(args, item) {}

  /// Sums of turn `turn` of pass `pass`; zeros of a part that is not there.
  __device__ float4 part(int pass, int turn) const {
    const int s = 32 * pass + turn * groups + group_;
    return s < parts_ ? __ldcg(of_.sums(s, row_, element_)) : float4{};
  }
  /// Of pass `pass`, this lane's.
  __device__ float2 mark(int pass) const {
    const int s = 32 * pass + lane_;
    return s < parts_ ? __ldcg(of_.mark(s, row_)) : make_float2(decode_no_reference, 0.0f);
  }
  __device__ void ask() {
#pragma unroll
    for (int pass = 0; pass < asked; ++pass) {
      marks_[pass] = mark(pass);
#pragma unroll
      for (int turn = 0; turn < turns; ++turn) first_[pass][turn] = part(pass, turn);
    }
  }

  /// The reference of all.
  __device__ void refer() {
    reference_ = marks_[0].x;
#pragma unroll
    for (int pass = 1; pass < asked; ++pass) reference_ = fmaxf(reference_, marks_[pass].x);
#pragma unroll 1
    for (int pass = asked; 32 * pass < parts_; ++pass) reference_ = fmaxf(reference_, mark(pass).x);
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2)
      reference_ = fmaxf(reference_, __shfl_xor_sync(~0u, reference_, lanes));
  }
  /// The sums of all, and their weight.
  __device__ void add() {
    weight_ = 0.0f, sum_ = float4{};
#pragma unroll
    for (int pass = 0; pass < asked; ++pass) add(marks_[pass], first_[pass]);
#pragma unroll 1
    for (int pass = asked; 32 * pass < parts_; ++pass) {
      float4 more[turns];
#pragma unroll
      for (int turn = 0; turn < turns; ++turn) more[turn] = part(pass, turn);
      add(mark(pass), more);
    }
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2)
      weight_ = __fadd_rn(weight_, __shfl_xor_sync(~0u, weight_, lanes));
#pragma unroll
    for (int lanes = of_group; lanes < 32; lanes *= 2) {
      float4 other;
      other.x = __shfl_xor_sync(~0u, sum_.x, lanes), other.y = __shfl_xor_sync(~0u, sum_.y, lanes);
      other.z = __shfl_xor_sync(~0u, sum_.z, lanes), other.w = __shfl_xor_sync(~0u, sum_.w, lanes);
      decode_add(sum_, other, 1.0f);
    }
  }
  /// A pass, by what each part counts for.
  __device__ void add(const float2& mark, const float4 (&parts)[turns]) {
    const float share = ptx::ex2_approx_ftz_f32(__fsub_rn(mark.x, reference_));
    weight_ = __fadd_rn(weight_, __fmul_rn(mark.y, share));
#pragma unroll
    for (int turn = 0; turn < turns; ++turn)
      decode_add(sum_, parts[turn], __shfl_sync(~0u, share, turn * groups + group_));
  }

  /// Every group has the four sums, and stores its part of them.
  __device__ void store(const AttentionDecodeArgs& args, const DecodeItem& item) const {
    const float sums[4] = {sum_.x, sum_.y, sum_.z, sum_.w};
#pragma unroll
    for (int first = 0; first < 4; first += groups) {
      float own[1] = {sums[first]};
#pragma unroll
      for (int i = first + 1; i < 4 && i < first + groups; ++i)
        if (group_ == i - first) own[0] = sums[i];
      if (first + group_ < 4)
        decode_store(args, item, row_, element_ + first + group_, reference_, weight_, own);
    }
  }

  const int parts_, row_, lane_, group_, element_;
  const DecodeParts<D, Rows> of_;
  float2 marks_[asked];
  float4 first_[asked][turns], sum_;
  float reference_, weight_;
};

}  // namespace microscale::cuda::attention
