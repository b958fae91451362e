// Brings a lane its 32 elements of the next row while it works on this one. 16-bit types: a warp
// copies 2 KiB of a row into shared memory without gaps and each lane reads its own 64 bytes back,
// so nothing waits in registers; the places are permuted so that neither side meets a bank
// conflict. The 16-byte halves of a sector stay side by side in an aligned 32 bytes: parted (with
// padding between lanes, say), the sector is fetched twice. FP32: read where needed.
#pragma once

#include <cstdint>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/block/input_chunk.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/quantize/fused_args.hpp"

namespace microscale::cuda {

inline constexpr int lane_chunks = lane_elements / chunk_elements;

/// A thread's 32 elements in memory's type.
template <class Input>
struct LaneElements {
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

/// Where a lane is: group `group` of row `row`; the warp takes 1024 neighbours of one row (wide),
/// or several rows of a narrow matrix. `valid`: of the lane's elements exist.
struct LanePlace {
  std::int64_t row;
  int group;
  int valid;
  bool wide;
};

/// A matrix to be read, stride in elements; `step` bytes from a lane's row to its next.
struct DenseMatrix {
  const void* data;
  std::int64_t stride;
  std::int64_t step;
};

/// Shared memory of a warp for one matrix.
template <class Input>
inline constexpr int loader_bytes = Input::element_bytes == 2 ? lane_stage_bytes : 16;

/// `Count` matrices of one shape.
template <class Input, int Count>
class LaneLoader {
  static constexpr bool staged = Input::element_bytes == 2;
  static constexpr int unit = 16;  // bytes of a copy; four to a lane

 public:
  /// `cols` of the matrices; `shared`: Count * loader_bytes of this warp's own.
  __device__ LaneLoader(const DenseMatrix (&matrices)[Count], std::int64_t cols,
                        const LanePlace& place, char* shared)
      : valid_(place.valid), wide_(place.wide) {
    const unsigned lane = threadIdx.x & 31u;
    first_ = static_cast<std::int64_t>(place.group) * lane_elements;
    if constexpr (staged) {
      constexpr int elements = unit / Input::element_bytes;
      const auto window = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
      own_ = window + lane * (4 * unit) + (lane >> 1 & 3u) * unit;
      to_ = own_;
      if (wide_) {  // unit j * 32 + lane of the warp's piece
        first_ += static_cast<std::int64_t>(lane) * (elements - lane_elements);
        to_ = window + (lane >> 2) * (4 * unit) + ((lane & 3u) ^ (lane >> 3)) * unit;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (first_ + j * (wide_ ? 32 : 1) * elements < cols) units_ |= 1u << j;
      whole_ = __all_sync(0xFFFFFFFFu, wide_ && units_ == 15u);
    }
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      source_[i] = static_cast<const char*>(matrices[i].data) +
                   (place.row * matrices[i].stride + first_) * Input::element_bytes;
      step_[i] = matrices[i].step;
    }
    if constexpr (!staged) somewhere_ = static_cast<const char*>(matrices[0].data);
  }

  /// Begins to load the row at hand, if it exists, and goes on to the next.
  __device__ void start(bool exists) {
    if constexpr (staged) {
      if (exists && whole_)
        copy_whole();
      else
        copy_part(exists);
#pragma unroll
      for (int i = 0; i < Count; ++i) source_[i] += step_[i];
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        at_[i] = exists && valid_ != 0 ? source_[i] : somewhere_;
        source_[i] += step_[i];
      }
    }
  }

  /// The same where FusedArgs::whole.
  __device__ void start_whole(bool exists) {
    if constexpr (staged) {
      if (exists) copy_whole();
#pragma unroll
      for (int i = 0; i < Count; ++i) source_[i] += step_[i];
    } else {
      start(exists);
    }
  }

  /// Waits for what start() began; then read(). All lanes of a warp call it, and __syncwarp()
  /// between the last read() and the next start().
  __device__ void wait() const {
    if constexpr (staged) {
      ptx::cp_async_wait_all();
      __syncwarp();
    }
  }

  /// Of a row or column that does not exist: zeros, of FP32 anything.
  __device__ void read(int matrix, LaneElements<Input>& raw) const {
    if constexpr (staged) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint4 v = ptx::ld_shared_v4((own_ ^ k * unit) + matrix * loader_bytes<Input>);
        raw.w[k][0] = v.x, raw.w[k][1] = v.y, raw.w[k][2] = v.z, raw.w[k][3] = v.w;
      }
    } else {
      raw.load(at_[matrix], valid_);
    }
  }

  /// Stores a lane's elements to `row` of a matrix, by way of the memory that read() has emptied.
  __device__ void store(int matrix, const LaneElements<Input>& raw, void* data, std::int64_t offset,
                        bool exists) const {
    char* target = static_cast<char*>(data) + (offset + first_) * Input::element_bytes;
    if constexpr (staged) {
      __syncwarp();
#pragma unroll
      for (int k = 0; k < 4; ++k)
        ptx::st_shared_v4((own_ ^ k * unit) + matrix * loader_bytes<Input>,
                          make_uint4(raw.w[k][0], raw.w[k][1], raw.w[k][2], raw.w[k][3]));
      __syncwarp();
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (exists && (units_ >> j & 1u))
          ptx::st_global_v4(target + j * (wide_ ? 32 * unit : unit),
                            ptx::ld_shared_v4((wide_ ? to_ + j * (32 * unit) : to_ ^ j * unit) +
                                              matrix * loader_bytes<Input>));
    } else {
#pragma unroll
      for (int k = 0; k < lane_chunks; ++k) {
        if (!exists || valid_ <= k * chunk_elements) continue;
        char* address = target + k * LaneElements<Input>::chunk_bytes;
        const auto& w = raw.w[k];
        ptx::st_global_v4(address, make_uint4(w[0], w[1], w[2], w[3]));
        ptx::st_global_v4(address + 16, make_uint4(w[4], w[5], w[6], w[7]));
      }
    }
  }

 private:
  __device__ void copy_whole() const {
#pragma unroll
    for (int i = 0; i < Count; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        ptx::cp_async_cg_shared_global_16(to_ + i * loader_bytes<Input> + j * (32 * unit),
                                          source_[i] + j * (32 * unit));
  }

  // What is outside becomes zeros: every lane reads, and what it reads has been written.
  __device__ void copy_part(bool exists) const {
    for (int i = 0; i < Count; ++i)
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t to =
            (wide_ ? to_ + j * (32 * unit) : to_ ^ j * unit) + i * loader_bytes<Input>;
        if (exists && (units_ >> j & 1u))
          ptx::cp_async_cg_shared_global_16(to, source_[i] + j * (wide_ ? 32 * unit : unit));
        else
          ptx::st_shared_v4(to, make_uint4(0, 0, 0, 0));
      }
  }

  const char* source_[Count];
  std::int64_t step_[Count];
  std::int64_t first_;       // column of the lane's first copy
  std::uint32_t own_ = 0;    // shared memory of the lane's first chunk; chunk k at own_ ^ k * unit,
  std::uint32_t to_ = 0;     // and of its first copy
  std::uint32_t units_ = 0;  // bit j: copy j is inside the matrix
  int valid_;
  bool wide_, whole_ = false;
  // FP32: what is read for a row that does not exist (of the first matrix: others may be written),
  const char* somewhere_ = nullptr;
  const char* at_[Count] = {};  // and the row that start() meant
};

}  // namespace microscale::cuda
