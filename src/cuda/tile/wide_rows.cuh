// What the kernels of many rows do with rows of a that nobody has prepared (tile/wide_product.cuh).
#pragma once

#include <cstdint>

#include "cuda/matmul_args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/wide_units.cuh"

namespace microscale::cuda {

inline constexpr int wide_loading_warps = 2, wide_loading_threads = 32 * wide_loading_warps;

/// Two warps bring rows of a that nobody has prepared, eight at once, 16 bytes a lane, each piece
/// where the swizzle has it. What is behind k becomes zeros; behind the rows the last one comes
/// again, as far as its eight go, or nothing, since their sums are dropped. A chunk is called
/// full when a few more are under way.
template <int Rows, int Tokens, int TileBytes, class Ring>
__device__ void load_rows(const MatmulWideArgs& args, std::uint32_t base, std::uint32_t thread,
                          Ring ring) {
  constexpr WideShared shared = wide_shared(wide_shape(Rows, Tokens), TileBytes);
  constexpr int under_way = shared.stages / 2, rows_at_once = wide_loading_threads / 8;
  static_assert(rows_at_once == 8, "the swizzle's pattern");
  const std::uint32_t piece = thread % 8, own = thread / 8;
  const std::uint32_t to = base + own * 128 + (piece ^ own) * 16;
  // Chunks in which the piece lies inside k.
  const auto inside = static_cast<std::uint32_t>((args.k + 63 - 8 * piece) / 64);
  const auto stride = static_cast<std::uint32_t>(args.a_stride);
  WideUnits<Rows, Tokens, TileBytes> units(args);
  WideUnit unit;
  Ring arriving = ring;
  int unannounced = 0;
  const auto arrive = [&] {
    ptx::fence_proxy_async_shared();
    __syncwarp();
    ptx::mbarrier_arrive(arriving.full(), threadIdx.x % 32 == 0);
    arriving.next();
  };
#pragma unroll 1
  while (units.next(unit)) {
    follow_previous_grid();  // the first time; that unit is found without memory, in a batch
    const WidePlace& at = unit.place;
    const std::int64_t row = std::int64_t{at.row_tile} * Tokens, left = at.rows.count - row;
    const std::uint32_t last = left < Tokens ? static_cast<std::uint32_t>(left) - 1 : Tokens - 1;
    const char* from = static_cast<const char*>(args.a) + (at.rows.first + row) * args.a_stride +
                       std::uint64_t{unit.first} * 128 + piece * 16;
    std::uint32_t offsets[Tokens / rows_at_once];
#pragma unroll
    for (int i = 0; i < Tokens / rows_at_once; ++i)
      offsets[i] = min(own + i * rows_at_once, last) * stride;
#pragma unroll 1
    for (std::uint32_t chunk = unit.first; chunk < unit.end; ++chunk, ring.next(), from += 128) {
      ring.wait_empty();
      const std::uint32_t stage = to + ring.stage() * shared.stage_bytes;
      const int bytes = chunk < inside ? 16 : 0;
#pragma unroll
      for (int i = 0; i < Tokens / rows_at_once; ++i)
        if (static_cast<std::uint32_t>(i * rows_at_once) <= last)
          ptx::cp_async_cg_shared_global_16(stage + i * rows_at_once * 128, from + offsets[i],
                                            bytes);
      ptx::cp_async_commit_group();
      if (unannounced < under_way) {
        ++unannounced;
      } else {
        ptx::cp_async_wait_group<under_way>();
        arrive();
      }
    }
  }
  ptx::cp_async_wait_group<0>();
  for (; unannounced > 0; --unannounced) arrive();
  ring.wait_empty();
  arrive();  // the stage that says that this was the end
}

}  // namespace microscale::cuda
