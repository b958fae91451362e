// A lane's 32 elements as they lie in memory.
#pragma once

#include <cstdint>

#include "cuda/quantize/fused_geometry.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/block/input_chunk.cuh"

namespace microscale::cuda {

inline constexpr int lane_chunks = lane_elements / chunk_elements;

/// A thread's 32 elements in memory's type.
template <class Input>
struct LaneRaw {
  static constexpr int chunk_bytes = chunk_elements * Input::element_bytes;
  std::uint32_t w[lane_chunks][Input::words];

  /// `valid` elements exist at `source`; the rest of a short group repeats what exists.
  __device__ void load(const char* source, int valid) {
    const int half = valid == lane_elements ? 2 * chunk_bytes : 0;
    Input::load(source, w[0]);
    Input::load(source + chunk_bytes, w[1]);
    Input::load(source + half, w[2]);
    Input::load(source + half + chunk_bytes, w[3]);
  }

  __device__ void store(char* target, int valid) const {
#pragma unroll
    for (int k = 0; k < lane_chunks; ++k)
#pragma unroll
      for (int i = 0; i < Input::words; i += 4)
        if (k * chunk_elements < valid)
          ptx::st_global_v4(target + k * chunk_bytes + i * 4,
                            make_uint4(w[k][i], w[k][i + 1], w[k][i + 2], w[k][i + 3]));
  }

  /// The same through the coherent cache, from memory that this kernel has written.
  __device__ void load_written(const char* source, int valid) {
#pragma unroll
    for (int k = 0; k < lane_chunks; ++k)
#pragma unroll
      for (int i = 0; i < Input::words; ++i)
        w[k][i] = k * chunk_elements < valid
                      ? reinterpret_cast<const std::uint32_t*>(source + k * chunk_bytes)[i]
                      : 0u;
  }

  __device__ void clear_from(int valid) {
#pragma unroll
    for (int k = 0; k < lane_chunks; ++k)
#pragma unroll
      for (int i = 0; i < Input::words; ++i)
        if (k * chunk_elements >= valid) w[k][i] = 0;
  }
};

}  // namespace microscale::cuda
