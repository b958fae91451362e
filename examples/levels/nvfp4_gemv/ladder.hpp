// The levels of this ladder by the names of their entry points, and how they are launched: on a GPU
// by main.cpp, on the emulator by the tests.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "args.hpp"

namespace levels {

struct GemvShape {
  std::int64_t m, k, l;
  std::int64_t elements() const { return m * k * l; }
  /// Codes and scales of a and of b's one row, and c: what has to be read and written at least.
  std::int64_t bytes() const { return (m + 1) * k * l * 9 / 16 + 2 * m * l; }
};
inline constexpr GemvShape ranked_shapes[] = {{7168, 16384, 1}, {4096, 7168, 8}, {7168, 2048, 4}};

/// What a level's arithmetic keeps, over all codes and finite scales.
enum class Kept : std::uint8_t {
  products,  // every product is exact, FP32 additions round
  halves     // FP16 products and sums: they round, and overflow
};

struct GemvLevel {
  const char* name;
  const char* entry;
  int threads;  // of a thread block
  int rows;     // of a thread block
  Kept kept;
  int parts = 1;                 // of k, in the grid
  bool both_layouts = false;     // takes scales in 128x4 tiles as well
  const char* second = nullptr;  // a kernel that follows, 256 threads, a row each
};

inline constexpr GemvLevel gemv_levels[] = {{.name = "1 thread a row",
                                             .entry = "gemv_1_thread_per_row",
                                             .threads = 128,
                                             .rows = 128,
                                             .kept = Kept::products},
                                            {.name = "2 split k, atomics",
                                             .entry = "gemv_2_split_k",
                                             .threads = 128,
                                             .rows = 128,
                                             .kept = Kept::products,
                                             .parts = 16,
                                             .second = "gemv_2_convert"},
                                            {.name = "3 warp a row, half2",
                                             .entry = "gemv_3_warp_per_row",
                                             .threads = 128,
                                             .rows = 4,
                                             .kept = Kept::halves},
                                            {.name = "4 loads of 8 bytes",
                                             .entry = "gemv_4_wide_loads",
                                             .threads = 128,
                                             .rows = 4,
                                             .kept = Kept::halves},
                                            {.name = "5 four chains",
                                             .entry = "gemv_5_four_chains",
                                             .threads = 128,
                                             .rows = 4,
                                             .kept = Kept::halves},
                                            {.name = "6 unrolled 8 times",
                                             .entry = "gemv_6_unroll_8",
                                             .threads = 128,
                                             .rows = 4,
                                             .kept = Kept::halves},
                                            {.name = "6 blocks of 256",
                                             .entry = "gemv_6_block_256",
                                             .threads = 256,
                                             .rows = 8,
                                             .kept = Kept::halves},
                                            {.name = "6 at most 64 registers",
                                             .entry = "gemv_6_registers_64",
                                             .threads = 128,
                                             .rows = 4,
                                             .kept = Kept::halves},
                                            {.name = "6 at most 24 registers",
                                             .entry = "gemv_6_registers_24",
                                             .threads = 128,
                                             .rows = 4,
                                             .kept = Kept::halves},
                                            {.name = "7 prefetch",
                                             .entry = "gemv_7_prefetch",
                                             .threads = 128,
                                             .rows = 4,
                                             .kept = Kept::halves},
                                            {.name = "8 matrix unit, 16 rows a warp",
                                             .entry = "gemv_8_matrix_unit",
                                             .threads = 256,
                                             .rows = 16,
                                             .kept = Kept::products,
                                             .both_layouts = true}};

struct GemvLaunch {
  const char* entry;
  unsigned x, y, z;  // thread blocks
  int threads, shared_bytes;
};

/// Dynamic shared memory: level 8 keeps b there.
int shared_bytes(const GemvLevel& level, std::int64_t k);

/// The one or two launches of a level, in order.
void run_level(const GemvLevel& level, const GemvShape& shape,
               const std::function<void(const GemvLaunch&)>& launch);

}  // namespace levels
