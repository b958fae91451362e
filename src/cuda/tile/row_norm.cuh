// RMSNorm of rows, with a residual if there is one, then the quantizer. A thread block holds a row, or
// several narrow ones; a thread holds 32 neighbours. Rows beyond 512 groups are read twice. The order of
// the sum is that of formats/producers.hpp: a warp's lanes, then the warps, are neighbours in a tree.
#pragma once

#include <cstdint>

#include "cuda/tile/lane_tile.cuh"
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

/// A lane's part of a row: sources and target of the sum.
struct NormPlace {
  const char* input;
  const char* residual;  // null: none
  char* sum;
};

/// input + residual where there is one, stored; as FP32.
template <class Input>
__device__ void finish_load(LaneRaw<Input>& raw, const NormPlace& place, int valid) {
  if (place.residual == nullptr) return;
  LaneRaw<Input> residual;
  residual.load(place.residual, valid);
#pragma unroll
  for (int k = 0; k < lane_chunks; ++k) {
#pragma unroll
    for (int i = 0; i < Input::words; ++i)
      raw.w[k][i] = add_residual<Input>(raw.w[k][i], residual.w[k][i]);
    if (valid <= k * chunk_elements) continue;
    char* address = place.sum + k * LaneRaw<Input>::chunk_bytes;
    const auto& w = raw.w[k];
    ptx::st_global_v4(address, make_uint4(w[0], w[1], w[2], w[3]));
    if constexpr (Input::words == 8)
      ptx::st_global_v4(address + 16, make_uint4(w[4], w[5], w[6], w[7]));
  }
}

template <class Input>
__device__ void widen(const LaneRaw<Input>& raw, float (&x)[lane_elements]) {
#pragma unroll
  for (int i = 0; i < lane_elements; ++i) x[i] = Input::value(raw.w[i / 8], i % 8);
}

/// x becomes the normed values' bits.
template <class Input>
__device__ void apply_weight(const char* weight, int valid, float multiplier,
                             const float (&x)[lane_elements], LaneValues& v) {
  if (weight == nullptr) {
#pragma unroll
    for (int i = 0; i < lane_elements; ++i)
      v[i / 8][i % 8] = __float_as_uint(rms_value(x[i], multiplier, 1.0f));
    return;
  }
#pragma unroll
  for (int k = 0; k < lane_chunks; ++k) {
    const int chunk = k * chunk_elements < valid ? k : 0;
    std::uint32_t w[Input::words];
    Input::load(weight + chunk * LaneRaw<Input>::chunk_bytes, w);
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i)
      v[k][i] = __float_as_uint(rms_value(x[8 * k + i], multiplier, Input::value(w, i)));
  }
}

/// The sum of squares of one segment's row; all threads of the block call it. `sums`: a float a warp.
__device__ inline float segment_sum(float sum, int row_threads, float* sums) {
  for (int distance = 1; distance < 32 && distance < row_threads; distance *= 2)
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
  if (row_threads <= 32) return sum;
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

template <class Input>
__device__ float group_sum(const float (&x)[lane_elements]) {
  return rms_group_sum([&](int i) { return x[i]; });
}

/// Rows that a block holds in registers: the next row is on its way while this one is encoded.
template <class Input, class Format>
__device__ void fused_rms_norm_held(const FusedArgs& args) {
  __shared__ float warp_sums[2][rms_segment_groups / 32];
  const int row_threads = args.row_threads;
  int group = static_cast<int>(threadIdx.x), row_of_thread = 0, rows_here = 1;
  if (row_threads <= 32) {
    const int shift = __ffs(row_threads) - 1;
    row_of_thread = group >> shift;
    group &= row_threads - 1;
    rows_here = static_cast<int>(blockDim.x) >> shift;
  }
  const LaneTile<Format> tile(args, make_scale_table<Format>(args), group);
  const int valid = tile.column.valid;
  const std::int64_t rows = args.quantize.rows, step = args.row_step;
  const std::int64_t end = args.tiled ? ceil_div(rows, 128) * 128 : rows;
  const std::int64_t first = static_cast<std::int64_t>(group) * lane_elements;
  std::int64_t block_row = static_cast<std::int64_t>(blockIdx.x) * rows_here;
  std::int64_t row = block_row + row_of_thread;
  constexpr int element = Input::element_bytes;
  const bool at_all = row < rows && valid != 0;
  NormPlace place{lane_source(args.quantize.input, row, args.quantize.row_stride, tile.column, first,
                              element, row < rows),
                  args.second == nullptr ? nullptr
                                         : lane_source(args.second, row, args.second_stride,
                                                       tile.column, first, element, row < rows),
                  static_cast<char*>(args.sum) + (at_all ? (row * args.sum_stride + first) * element : 0)};
  const std::int64_t input_step = valid != 0 ? step * args.quantize.row_stride * element : 0,
                     residual_step = valid != 0 ? step * args.second_stride * element : 0,
                     sum_step = step * args.sum_stride * element;
  const char* weight =
      args.weight == nullptr || valid == 0
          ? static_cast<const char*>(args.weight)
          : static_cast<const char*>(args.weight) + first * element;
  std::uint8_t* codes = tile.codes_of(row);
  std::uint8_t* scales = tile.scales_of(row);
  const std::int64_t code_step = step * args.quantize.code_stride, scale_step = tile.scale_step(step);
  const float count = static_cast<float>(args.quantize.cols);
  LaneRaw<Input> raw;
  raw.load(place.input, valid);
  for (int turn = 0; block_row < end; turn ^= 1) {
    const bool exists = row < rows;
    finish_load(raw, place, exists ? valid : 0);
    if (!exists || valid < lane_elements) raw.clear_from(exists ? valid : 0);
    float x[lane_elements];
    widen(raw, x);
    const float total = segment_sum(group_sum<Input>(x), row_threads, warp_sums[turn]);
    const float multiplier = rms_multiplier(total, count, args.epsilon);
    LaneValues v;
    apply_weight<Input>(weight, valid, multiplier, x, v);
    block_row += step;
    row += step;
    if (row < rows) {
      place.input += input_step;
      if (place.residual != nullptr) place.residual += residual_step;
      place.sum += sum_step;
    }
    raw.load(place.input, valid);
    tile.run(v, exists, codes, scales);
    codes += code_step;
    scales += scale_step;
  }
}

/// Longer rows: one a block at a time, read twice.
template <class Input, class Format>
__device__ void fused_rms_norm_long(const FusedArgs& args) {
  __shared__ float warp_sums[2][rms_segment_groups / 32];
  const ScaleTable table = make_scale_table<Format>(args);
  constexpr int element = Input::element_bytes;
  const std::int64_t rows = args.quantize.rows;
  const std::int64_t end = args.tiled ? ceil_div(rows, 128) * 128 : rows;
  for (std::int64_t row = blockIdx.x; row < end; row += gridDim.x) {
    const bool exists = row < rows;
    float total = 0.0f, multiplier = 0.0f;
    for (int pass = 0; pass < 2; ++pass) {
      for (int s = 0; s < args.column_pieces; ++s) {
        const int group = s * args.row_threads + static_cast<int>(threadIdx.x);
        const LaneTile<Format> tile(args, table, group);
        const int valid = exists ? tile.column.valid : 0;
        const std::int64_t first = static_cast<std::int64_t>(group) * lane_elements;
        const auto at = [&](const void* matrix, std::int64_t stride) {
          return lane_source(matrix, row, stride, tile.column, first, element, exists);
        };
        const bool second_read = pass == 1 && args.second != nullptr;
        LaneRaw<Input> raw;
        if (second_read)  // the sum, which this thread has written: no read-only load
          raw.load_written(at(args.sum, args.sum_stride), valid);
        else
          raw.load(at(args.quantize.input, args.quantize.row_stride), valid);
        if (pass == 0 && args.second != nullptr)
          finish_load(raw,
                      {nullptr, at(args.second, args.second_stride),
                       const_cast<char*>(at(args.sum, args.sum_stride))},
                      valid);
        raw.clear_from(valid);
        float x[lane_elements];
        widen(raw, x);
        if (pass == 0) {
          const float sum = segment_sum(group_sum<Input>(x), args.row_threads, warp_sums[s & 1]);
          total = s == 0 ? sum : __fadd_rn(total, sum);
          continue;
        }
        LaneValues v;
        apply_weight<Input>(args.weight == nullptr ? nullptr : at(args.weight, 0), valid, multiplier, x, v);
        tile.run(v, exists, tile.codes_of(row), tile.scales_of(row));
      }
      multiplier = rms_multiplier(total, static_cast<float>(args.quantize.cols), args.epsilon);
      __syncthreads();  // the sums have been read
    }
  }
}

template <class Input, class Format>
__device__ void fused_rms_norm(const FusedArgs& args) {
  if (args.column_pieces == 1)
    fused_rms_norm_held<Input, Format>(args);
  else
    fused_rms_norm_long<Input, Format>(args);
}

}  // namespace microscale::cuda
