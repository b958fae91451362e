// The largest magnitude of a tensor, NaN ignored, and NVFP4's global scale from it. The result does
// not depend on the order: magnitudes compare as integers.
#pragma once

#include <cstdint>

#include "cuda/block/block_scale.cuh"
#include "cuda/block/input_chunk.cuh"
#include "cuda/quantize/args.hpp"
#include "formats/integers.hpp"

namespace microscale::cuda {

// Largest magnitude of a chunk that may hold NaNs, which do not count.
template <class Input>
__device__ std::uint32_t chunk_amax(const std::uint32_t (&w)[Input::words]) {
  const std::uint32_t amax = Input::amax_bits(w);
  if (amax <= infinity_bits) return amax;
  std::uint32_t largest = 0;
  for (int i = 0; i < chunk_elements; ++i) {
    const std::uint32_t magnitude = __float_as_uint(Input::value(w, i)) & 0x7FFFFFFFu;
    if (magnitude <= infinity_bits) largest = max(largest, magnitude);
  }
  return largest;
}

// A thread block takes runs of `run` chunks, thread by thread, four chunks in flight; a row is a
// whole number of runs, the last one short. `cols` is any number: the elements after the last whole
// chunk are read one at a time.
template <class Input>
__device__ void abs_max(const AbsMaxArgs& args) {
  constexpr int run = threads_per_block * rows_per_thread;
  const std::int64_t chunks = args.cols / chunk_elements;
  const std::int64_t runs_per_row = ceil_div(chunks, run) > 0 ? ceil_div(chunks, run) : 1;
  std::uint32_t largest = 0;
  for (std::int64_t r = blockIdx.x; r < runs_per_row * args.rows; r += gridDim.x) {
    const std::int64_t row = r / runs_per_row;
    const std::int64_t first = (r % runs_per_row) * run + threadIdx.x;
    const char* source =
        static_cast<const char*>(args.input) + row * args.row_stride * Input::element_bytes;
    std::uint32_t w[rows_per_thread][Input::words];
#pragma unroll
    for (int j = 0; j < rows_per_thread; ++j) {
      const std::int64_t chunk = first + j * threads_per_block;
      if (chunk < chunks) {
        Input::load(source + chunk * (chunk_elements * Input::element_bytes), w[j]);
      } else {
#pragma unroll
        for (int i = 0; i < Input::words; ++i) w[j][i] = 0;
      }
    }
#pragma unroll
    for (int j = 0; j < rows_per_thread; ++j) largest = max(largest, chunk_amax<Input>(w[j]));
    const std::int64_t tail = chunks * chunk_elements + threadIdx.x;
    if (r % runs_per_row == 0 && tail < args.cols) {
      std::uint32_t one[Input::words] = {};
      if constexpr (Input::element_bytes == 2)
        one[0] = reinterpret_cast<const std::uint16_t*>(source)[tail];
      else
        one[0] = reinterpret_cast<const std::uint32_t*>(source)[tail];
      largest = max(largest, chunk_amax<Input>(one));
    }
  }
  largest = __reduce_max_sync(0xFFFFFFFFu, largest);
  if ((threadIdx.x & 31) == 0 && largest != 0) atomicMax(args.amax_bits, largest);
}

// nvfp4_global_scale, operation for operation (src/ops/global_scale.cpp).
__device__ inline bool conventions_agree(float g) {
  const float divisor = __frcp_rn(g);
  if (__frcp_rn(divisor) != g) return false;
  for (int significand = 9; significand < 16; ++significand) {
    const float s = static_cast<float>(significand);
    if (__fdiv_rn(s, divisor) != __fmul_rn(s, g)) return false;
  }
  return true;
}

__device__ inline float global_scale_of(float amax) {
  if (!(amax > 0)) return 1.0f;
  float g = fmaxf(__fdiv_rn(fminf(amax, largest_float), 6.0f * 448.0f), 0x1p-117f);
  while (!conventions_agree(g)) g = __uint_as_float(__float_as_uint(g) + 1);
  return g;
}

/// Stores the global scale of the amax found; one thread. amax_bits and global_scale may be the
/// same four bytes.
__device__ inline void store_global_scale(const AbsMaxArgs& args) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *args.global_scale = global_scale_of(__uint_as_float(*args.amax_bits));
}

}  // namespace microscale::cuda
