// RMSNorm of rows, with a residual if there is one, then the quantizer. A thread block holds a row,
// or several narrow ones; a thread holds 32 neighbours. Rows beyond 512 groups are read twice. The
// order of the sum is that of formats/producers.hpp: a warp's lanes, then the warps, are neighbours
// in a tree.
#pragma once

#include <cstdint>

#include "cuda/quantize/fused_loads.cuh"
#include "cuda/quantize/fused_quantizer.cuh"
#include "formats/integers.hpp"
#include "formats/producers.hpp"

namespace microscale::cuda {

/// input + residual, rounded to their type: what is stored and what is normed.
template <class Input>
__device__ std::uint32_t add_residual(std::uint32_t x, std::uint32_t residual) {
  if constexpr (Input::element_bytes == 4) {
    return __float_as_uint(__fadd_rn(__uint_as_float(x), __uint_as_float(residual)));
  } else {
    using Packed = typename Input::Packed;
    const float low = __fadd_rn(Packed::widen(x & 0xFFFFu), Packed::widen(residual & 0xFFFFu));
    const float high = __fadd_rn(Packed::widen_high(x), Packed::widen_high(residual));
    return Input::is_bf16 ? ptx::cvt_rn_bf16x2_f32(low, high) : ptx::cvt_rn_f16x2_f32(low, high);
  }
}

template <class Input>
__device__ void widen(const LaneElements<Input>& raw, float (&x)[lane_elements]) {
#pragma unroll
  for (int i = 0; i < lane_elements; ++i) x[i] = Input::value(raw.w[i / 8], i % 8);
}

template <class Input>
__device__ void add_residual(LaneElements<Input>& x, const LaneElements<Input>& residual) {
#pragma unroll
  for (int k = 0; k < lane_chunks; ++k)
#pragma unroll
    for (int i = 0; i < Input::words; ++i)
      x.w[k][i] = add_residual<Input>(x.w[k][i], residual.w[k][i]);
}

/// The weights of a lane's columns, in shared memory for rows of 16-bit types: widened to FP32, or
/// (Packed) as they are. Of FP32 rows, read again each time.
template <class Input, bool Packed>
class NormWeights {
  static constexpr bool staged = Input::element_bytes == 2;

 public:
  /// `shared`: 4096 bytes of this warp's own; Packed: loader_bytes.
  __device__ NormWeights(const void* data, std::int64_t cols, const LanePlace& place, char* shared)
      : loader_({{data, 0, 0}}, cols, {0, place.group, place.valid, place.wide}, shared),
        data_(static_cast<const char*>(data)) {
    if (data_ == nullptr) return;
    if constexpr (staged) {
      at_ = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) + (threadIdx.x & 31u) * 16;
      loader_.start(true);
    } else {
      valid_ = place.valid;
      if (valid_ != 0) data_ += static_cast<std::int64_t>(place.group) * (lane_elements * 4);
    }
  }

  __device__ bool any() const { return data_ != nullptr; }

  /// Once, when copies have arrived: makes them FP32. All lanes of a warp call it.
  __device__ void widen() const {
    if constexpr (staged && !Packed) {
      LaneElements<Input> raw;
      loader_.read(0, raw);
      __syncwarp();
#pragma unroll
      for (int q = 0; q < lane_elements / 4; ++q)
        ptx::st_shared_v4(at_ + q * 512, make_uint4(bits(raw, 4 * q), bits(raw, 4 * q + 1),
                                                    bits(raw, 4 * q + 2), bits(raw, 4 * q + 3)));
      __syncwarp();
    }
  }

  /// The normed values of a row.
  __device__ __forceinline__ void apply(const float (&x)[lane_elements], float multiplier,
                                        LaneValues& v) const {
    if constexpr (staged && !Packed) {
#pragma unroll
      for (int q = 0; q < lane_elements / 4; ++q) {
        const uint4 four = ptx::ld_shared_v4(at_ + q * 512);
        const std::uint32_t weight[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
          v[q / 2][q % 2 * 4 + i] =
              __float_as_uint(rms_value(x[4 * q + i], multiplier, __uint_as_float(weight[i])));
      }
    } else {
      LaneElements<Input> w;
      if constexpr (staged)
        loader_.read(0, w);
      else
        w.load(data_, valid_);
#pragma unroll
      for (int i = 0; i < lane_elements; ++i)
        v[i / 8][i % 8] =
            __float_as_uint(rms_value(x[i], multiplier, Input::value(w.w[i / 8], i % 8)));
    }
  }

 private:
  __device__ static std::uint32_t bits(const LaneElements<Input>& raw, int i) {
    return __float_as_uint(Input::value(raw.w[i / 8], i % 8));
  }
  LaneLoader<Input, 1> loader_;
  const char* data_;
  std::uint32_t at_ = 0;
  int valid_ = 0;
};

__device__ inline void apply_without_weight(const float (&x)[lane_elements], float multiplier,
                                            LaneValues& v) {
#pragma unroll
  for (int i = 0; i < lane_elements; ++i)
    v[i / 8][i % 8] = __float_as_uint(rms_value(x[i], multiplier, 1.0f));
}

/// The sum of squares of one segment's row; all threads of the block call it. `sums`: a float a
/// warp.
__device__ inline float segment_sum(float sum, int row_threads, float* sums) {
  if (row_threads < 32) {
    for (int distance = 1; distance < row_threads; distance *= 2)
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
    return sum;
  }
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2)
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
  if (row_threads == 32) return sum;
  constexpr unsigned most = rms_segment_groups / 32;
  const unsigned lane = threadIdx.x & 31u;
  if (lane == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  const unsigned warp = lane & (most - 1);
  sum = warp < blockDim.x / 32 ? sums[warp] : 0.0f;
#pragma unroll
  for (unsigned distance = 1; distance < most; distance *= 2)
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, static_cast<int>(distance)));
  return sum;
}

/// Eight neighbours of the tree.
__device__ inline float eight_sums(const float* sums) {
  const float4 a = reinterpret_cast<const float4*>(sums)[0];
  const float4 b = reinterpret_cast<const float4*>(sums)[1];
  return __fadd_rn(__fadd_rn(__fadd_rn(a.x, a.y), __fadd_rn(a.z, a.w)),
                   __fadd_rn(__fadd_rn(b.x, b.y), __fadd_rn(b.z, b.w)));
}

template <bool Residual>
struct NormMatrices {
  DenseMatrix in[Residual ? 2 : 1];
  __device__ explicit NormMatrices(const FusedArgs& args) {
    in[0] = {args.quantize.input, args.quantize.row_stride, args.input_step};
    if constexpr (Residual) in[1] = {args.second, args.second_stride, args.second_step};
  }
};

/// Rows that a block holds in registers: the next row is on its way while this one is encoded.
/// Weights stay in shared memory.
template <class Input, class Format, bool Residual>
__device__ void fused_rms_norm_held(const FusedArgs& args, char* stage) {
  __shared__ float warp_sums[2][rms_segment_groups / 32];
  const int row_threads = args.row_threads;
  int group = static_cast<int>(threadIdx.x), row_of_thread = 0, rows_here = 1;
  if (row_threads <= 32) {
    const int shift = __ffs(row_threads) - 1;
    row_of_thread = group >> shift;
    group &= row_threads - 1;
    rows_here = static_cast<int>(blockDim.x) >> shift;
  }
  const LaneQuantizer<Format> tile(args, Format::prepare(args.quantize.global_scale), group);
  const int valid = tile.column.valid;
  const std::int64_t rows = args.quantize.rows, step = args.row_step, cols = args.quantize.cols;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * rows_here + row_of_thread;
  const bool wide = row_threads >= 32;
  constexpr int operands = Residual ? 2 : 1;
  const NormMatrices<Residual> matrices(args);
  LaneLoader<Input, operands> inputs(matrices.in, cols, {row, group, valid, wide}, stage);
  const NormWeights<Input, packs_weights(Format::code_bits)> weights(
      args.weight, cols, {0, group, valid, wide}, stage + operands * loader_bytes<Input>);
  std::uint8_t* codes = tile.codes_of(row);
  std::uint8_t* scales = tile.scales_of(row);
  const float inverse_count = rms_inverse_count(cols);
  bool exists = row < rows;
  inputs.start(exists);
  for (std::int64_t turn = 0; turn < args.turns; ++turn) {
    LaneElements<Input> raw;
    inputs.wait();
    if (turn == 0 && weights.any()) weights.widen();
    inputs.read(0, raw);
    if constexpr (Residual) {
      LaneElements<Input> other;
      inputs.read(1, other);
      add_residual(raw, other);
      inputs.store(1, raw, args.sum, row * args.sum_stride, exists);
    }
    if (!exists || valid < lane_elements) raw.clear_from(exists ? valid : 0);
    float x[lane_elements];
    widen(raw, x);
    if (args.tiled) scales = tile.scales_of(row);
    const bool padding = !exists && tile.is_padding(row);
    row += step;
    const bool next = row < rows;
    __syncwarp();
    inputs.start(next);
    const float total =
        segment_sum(rms_group_sum([&](int i) { return x[i]; }), row_threads, warp_sums[turn & 1]);
    const float multiplier = rms_multiplier(total, inverse_count, args.epsilon);
    LaneValues v;
    if (weights.any())
      weights.apply(x, multiplier, v);
    else
      apply_without_weight(x, multiplier, v);
    tile.run(v, exists, padding, codes, scales);
    codes += args.code_step;
    scales += args.scale_step;  // row-major ones
    exists = next;
  }
}

/// The same where FusedArgs::whole: a row to a thread block, nothing to be left out.
template <class Input, class Format, bool Residual>
__device__ void fused_rms_norm_whole(const FusedArgs& args, char* stage) {
  constexpr int most = rms_segment_groups / 32, operands = Residual ? 2 : 1;
  __shared__ __align__(16) float sums[2][most];             // of rows by turns
  if (threadIdx.x < 2 * most) sums[0][threadIdx.x] = 0.0f;  // of warps that there are not
  const int group = static_cast<int>(threadIdx.x);
  const LaneQuantizer<Format> tile(args, Format::prepare(args.quantize.global_scale), group);
  const std::int64_t rows = args.quantize.rows, step = args.row_step, cols = args.quantize.cols;
  std::int64_t row = blockIdx.x;
  const LanePlace place{row, group, lane_elements, true};
  const NormMatrices<Residual> matrices(args);
  LaneLoader<Input, operands> inputs(matrices.in, cols, place, stage);
  const NormWeights<Input, packs_weights(Format::code_bits)> weights(
      args.weight, cols, place, stage + operands * loader_bytes<Input>);
  inputs.start_whole(row < rows);
  inputs.wait();
  if (weights.any()) weights.widen();
  __syncthreads();
  std::uint8_t* codes = tile.codes_of(row);
  std::uint8_t* scales = tile.scales_of(row);
  const float inverse_count = rms_inverse_count(cols);
  for (std::uint32_t turn = 0; row < rows; ++turn) {
    LaneElements<Input> raw;
    inputs.wait();
    inputs.read(0, raw);
    if constexpr (Residual) {
      LaneElements<Input> other;
      inputs.read(1, other);
      add_residual(raw, other);
      inputs.store(1, raw, args.sum, row * args.sum_stride, true);
    }
    float x[lane_elements];
    widen(raw, x);
    if (args.tiled) scales = tile.scales_of(row);
    row += step;
    __syncwarp();
    inputs.start_whole(row < rows);
    float sum = rms_group_sum([&](int i) { return x[i]; });
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2)
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
    float* const mine = sums[turn & 1];
    if ((threadIdx.x & 31u) == 0) mine[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = eight_sums(mine);
    if (blockDim.x > 256) sum = __fadd_rn(sum, eight_sums(mine + 8));
    const float multiplier = rms_multiplier(sum, inverse_count, args.epsilon);
    LaneValues v;
    if (weights.any())
      weights.apply(x, multiplier, v);
    else
      apply_without_weight(x, multiplier, v);
    tile.run_whole(v, codes, scales);
    codes += args.code_step;
    scales += args.scale_step;  // row-major ones
  }
}

/// Longer rows: one a block at a time, read twice.
template <class Input, class Format, bool Residual>
__device__ void fused_rms_norm_long(const FusedArgs& args) {
  __shared__ float warp_sums[2][rms_segment_groups / 32];
  const typename Format::Shared shared = Format::prepare(args.quantize.global_scale);
  constexpr int element = Input::element_bytes;
  const std::int64_t rows = args.quantize.rows;
  const std::int64_t end = args.tiled ? ceil_div(rows, 128) * 128 : rows;
  for (std::int64_t row = blockIdx.x; row < end; row += gridDim.x) {
    const bool exists = row < rows;
    float total = 0.0f, multiplier = 0.0f;
    for (int pass = 0; pass < 2; ++pass) {
      for (int s = 0; s < args.column_pieces; ++s) {
        const int group = s * args.row_threads + static_cast<int>(threadIdx.x);
        const LaneQuantizer<Format> tile(args, shared, group);
        const int valid = exists ? tile.column.valid : 0;
        const std::int64_t first =
            valid == 0 ? 0 : static_cast<std::int64_t>(group) * lane_elements;
        const std::int64_t line = valid == 0 ? 0 : row;
        LaneElements<Input> raw, other;
        if (pass == 0 || !Residual) {
          raw.load(static_cast<const char*>(args.quantize.input) +
                       (line * args.quantize.row_stride + first) * element,
                   valid);
        }
        if constexpr (Residual) {
          char* sum = static_cast<char*>(args.sum) + (line * args.sum_stride + first) * element;
          if (pass == 0) {
            // Where nothing exists, the input again: another thread may write the sum there.
            other.load(valid == 0 ? static_cast<const char*>(args.quantize.input)
                                  : static_cast<const char*>(args.second) +
                                        (line * args.second_stride + first) * element,
                       valid);
            add_residual(raw, other);
            raw.store(sum, valid);
          } else {
            raw.load_written(sum, valid);  // by this thread
          }
        }
        raw.clear_from(valid);
        float x[lane_elements];
        widen(raw, x);
        if (pass == 0) {
          const float sum = segment_sum(rms_group_sum([&](int i) { return x[i]; }),
                                        args.row_threads, warp_sums[s & 1]);
          total = s == 0 ? sum : __fadd_rn(total, sum);
          continue;
        }
        LaneValues v;
        apply_without_weight(x, multiplier, v);
        if (args.weight != nullptr) {
          LaneElements<Input> weight;
          weight.load(static_cast<const char*>(args.weight) + first * element, valid);
#pragma unroll
          for (int i = 0; i < lane_elements; ++i)
            v[i / 8][i % 8] =
                __float_as_uint(rms_value(x[i], multiplier, Input::value(weight.w[i / 8], i % 8)));
        }
        tile.run(v, exists, !exists, tile.codes_of(row), tile.scales_of(row));
      }
      multiplier = rms_multiplier(total, rms_inverse_count(args.quantize.cols), args.epsilon);
      __syncthreads();  // the sums have been read
    }
  }
}

template <class Input, class Format, bool Residual>
__device__ void fused_rms_norm(const FusedArgs& args) {
  extern __shared__ __align__(64) char stages[];  // row_stage_bytes of fused_args.hpp, a warp
  // Where it was faster: with a residual, two ways in one kernel spill 4-bit codes.
  constexpr bool goes_whole =
      !Format::searches && Input::element_bytes == 2 && (Format::code_bits == 8 || !Residual);
  char* const stage =
      stages +
      threadIdx.x / 32 * row_stage_bytes(Input::element_bytes, Residual, Format::code_bits);
  if (args.column_pieces > 1)
    fused_rms_norm_long<Input, Format, Residual>(args);
  else if (goes_whole && args.whole)
    fused_rms_norm_whole<Input, Format, Residual>(args, stage);
  else
    fused_rms_norm_held<Input, Format, Residual>(args, stage);
}

}  // namespace microscale::cuda
