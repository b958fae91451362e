// Sums of warps over their chunks, and of blocks over their parts of the keys, into results.
#pragma once

#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/grid_order.cuh"

namespace microscale::cuda {

/// A row's sum of one element, or its reference and weight, over part `part` of the keys.
template <int D, int Rows>
__device__ void store_part(const AttentionDecodeArgs& args, const DecodeItem& item, int part,
                           int row, int element, float sum) {
  const std::int64_t index = static_cast<std::int64_t>(item.index) * args.splits + part;
  args.partial[(index * Rows + row) * D + element] = sum;
}
template <int D, int Rows>
__device__ void store_mark(const AttentionDecodeArgs& args, const DecodeItem& item, int part,
                           int row, float reference, float weight) {
  const std::int64_t index = static_cast<std::int64_t>(item.index) * args.splits + part,
                     sums = static_cast<std::int64_t>(args.items) * args.splits * Rows * D;
  float* const mark = args.partial + sums + (index * Rows + row) * 2;
  mark[0] = reference;
  mark[1] = weight;
}

/// Sums of a block's warps, in their order: [warp][row][D], then reference and weight of
/// [warp][row]. Results where keys have one part, else that part.
template <int D, int Rows>
__device__ void merge_warps(const AttentionDecodeArgs& args, const DecodeItem& item, int split,
                            const float* sums) {
  const float* const marks = sums + decode_warps * Rows * D;
  for (int i = threadIdx.x; i < item.count * D; i += decode_threads) {
    const int row = i / D, element = i % D;
    float reference = decode_no_reference, weight = 0.0f, sum = 0.0f;
#pragma unroll
    for (int w = 0; w < decode_warps; ++w)
      reference = fmaxf(reference, marks[(w * Rows + row) * 2]);
#pragma unroll
    for (int w = 0; w < decode_warps; ++w) {
      const float share =
          ptx::ex2_approx_ftz_f32(__fsub_rn(marks[(w * Rows + row) * 2], reference));
      weight = __fadd_rn(weight, __fmul_rn(marks[(w * Rows + row) * 2 + 1], share));
      sum = __fadd_rn(sum, __fmul_rn(sums[(w * Rows + row) * D + element], share));
    }
    if (args.splits == 1) {
      decode_store(args, item, row, element, reference, weight, sum);
      continue;
    }
    store_part<D, Rows>(args, item, split, row, element, sum);
    if (element == 0) store_mark<D, Rows>(args, item, split, row, reference, weight);
  }
}

/// Merges the parts of a row; block (x, y) has row y of item x. Groups of threads take every
/// group-th part each, then groups are added in their order. The next grid is let in at the end:
/// its blocks, come among those of this one, have other schedulers for their warps than they are
/// made for, which costs decoding a tenth.
template <int D, int Rows>
class AttentionDecodeMerge {
 public:
  __device__ static void run(const AttentionDecodeArgs& args) {
    ptx::griddepcontrol_wait();
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * args.splits,
                       parts = static_cast<std::int64_t>(gridDim.x) * args.splits,
                       row = static_cast<int>(blockIdx.y);
    AttentionDecodeMerge merge(args.splits, args.partial + (first * Rows + row) * D,
                               args.partial + parts * Rows * D + (first * Rows + row) * 2);
    merge.ask();
    const DecodeItem item(args, static_cast<int>(blockIdx.x), Rows);
    if (row >= item.count) return;
    merge.weigh();
    const float sum = merge.sum();
    if (threadIdx.x < D)
      decode_store(args, item, static_cast<int>(row), static_cast<int>(threadIdx.x),
                   merge.reference_, merge.weight_, sum);
    ptx::griddepcontrol_launch_dependents();
  }

 private:
  static constexpr int fours = D / 4, groups = decode_merge_threads / fours;
  static constexpr int asked = 8;  // parts of a group, whose sums are asked for at once
  struct Shared {
    float shares[decode_most_splits], of_warps[2][decode_merge_threads / 32];
    float sums[groups][D];
  };
  __device__ static Shared& shared() {
    __shared__ __align__(16) Shared memory;
    return memory;
  }

  __device__ AttentionDecodeMerge(int parts, const float* sums, const float* marks)
      : parts_(parts),
        thread_(static_cast<int>(threadIdx.x)),
        group_(thread_ / fours),
        sums_(sums + thread_ % fours * 4),
        marks_(marks) {}

  __device__ float4 part(int s) const {
    return *reinterpret_cast<const float4*>(sums_ + static_cast<std::int64_t>(s) * (Rows * D));
  }
  __device__ float2 mark(int s) const {
    return *reinterpret_cast<const float2*>(marks_ + s * Rows * 2);
  }
  /// The first parts, before anything is waited for.
  __device__ void ask() {
    mark_ = thread_ < parts_ ? mark(thread_) : make_float2(decode_no_reference, 0.0f);
#pragma unroll
    for (int i = 0; i < asked; ++i)
      first_[i] = group_ + i * groups < parts_ ? part(group_ + i * groups) : float4{};
  }

  /// What each part counts for, and the weight of all.
  __device__ void weigh() {
    float reference = mark_.x;
    for (int s = thread_ + decode_merge_threads; s < parts_; s += decode_merge_threads)
      reference = fmaxf(reference, mark(s).x);
    reference_ = over_warps(0, reference, [](float a, float b) { return fmaxf(a, b); });
    float weight = 0.0f;
    for (int s = thread_; s < parts_; s += decode_merge_threads) {
      const float2 of = s == thread_ ? mark_ : mark(s);
      const float share = ptx::ex2_approx_ftz_f32(__fsub_rn(of.x, reference_));
      shared().shares[s] = share;
      weight = __fadd_rn(weight, __fmul_rn(of.y, share));
    }
    weight_ = over_warps(1, weight, [](float a, float b) { return __fadd_rn(a, b); });
  }
  /// All threads' values put together, warps in their order.
  template <class Put>
  __device__ float over_warps(int of, float x, Put&& put) const {
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) x = put(x, __shfl_xor_sync(~0u, x, lanes));
    float* const of_warps = shared().of_warps[of];
    if (thread_ % 32 == 0) of_warps[thread_ / 32] = x;
    __syncthreads();
    x = of_warps[0];
#pragma unroll
    for (int warp = 1; warp < decode_merge_threads / 32; ++warp) x = put(x, of_warps[warp]);
    return x;
  }

  /// Of the element that is this thread's number.
  __device__ float sum() const {
    float4 sum{};
    const auto add = [&](int s, const float4& part) {
      const float share = shared().shares[s];
      sum.x = __fadd_rn(sum.x, __fmul_rn(part.x, share));
      sum.y = __fadd_rn(sum.y, __fmul_rn(part.y, share));
      sum.z = __fadd_rn(sum.z, __fmul_rn(part.z, share));
      sum.w = __fadd_rn(sum.w, __fmul_rn(part.w, share));
    };
#pragma unroll
    for (int i = 0; i < asked; ++i)
      if (group_ + i * groups < parts_) add(group_ + i * groups, first_[i]);
#pragma unroll 4
    for (int s = group_ + asked * groups; s < parts_; s += groups) add(s, part(s));
    *reinterpret_cast<float4*>(&shared().sums[group_][thread_ % fours * 4]) = sum;
    __syncthreads();
    float all = 0.0f;
#pragma unroll
    for (int g = 0; g < groups; ++g) all = __fadd_rn(all, shared().sums[g][thread_ % D]);
    return all;
  }

  const int parts_, thread_, group_;
  const float* const sums_;
  const float* const marks_;
  float2 mark_{};  // reference and weight of the part that is this thread's number
  float4 first_[asked];
  float reference_ = 0.0f, weight_ = 0.0f;
};

}  // namespace microscale::cuda
