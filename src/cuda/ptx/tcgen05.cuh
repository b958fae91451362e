// Matrix products out of shared memory into tensor memory (PTX ISA, "TensorCore 5th Generation
// Family Instructions"): 128 lanes x 512 columns of 32 bits beside each multiprocessor, which holds
// sums and block scales. An address is lane << 16 | column. sm_100f.
//
// Copies, products and commits are one thread's, and asynchronous: what a commit's mbarrier
// has counted is done. A copy and the products behind it keep their order, as products do among
// each other; between threads stands a pair of fences around the barrier.
#pragma once

#include <cstdint>

namespace microscale::ptx {

// `Blocks`: 1, or 2 for a pair of a cluster (.cta_group). Of a pair both allocate; one thread of
// the first block copies and multiplies for both: what it names, it names in either block.
#define MICROSCALE_TCGEN05_GROUP(before, after, ...)          \
  if constexpr (Blocks == 1)                                  \
    asm volatile(before ".cta_group::1" after ::__VA_ARGS__); \
  else                                                        \
    asm volatile(before ".cta_group::2" after ::__VA_ARGS__)

/// "tcgen05.alloc": a whole warp waits for `Columns` (32 to 512, a power of two) and writes
/// the address of the first to shared memory. The same warp gives them back.
template <int Blocks, int Columns>
__device__ inline void tcgen05_alloc(std::uint32_t to_shared) {
  MICROSCALE_TCGEN05_GROUP("tcgen05.alloc", ".sync.aligned.shared::cta.b32 [%0], %1;",
                           "r"(to_shared), "n"(Columns)
                           : "memory");
}
template <int Blocks, int Columns>
__device__ inline void tcgen05_dealloc(std::uint32_t tensor) {
  MICROSCALE_TCGEN05_GROUP("tcgen05.dealloc", ".sync.aligned.b32 %0, %1;", "r"(tensor), "n"(Columns)
                           : "memory");
}
/// "tcgen05.relinquish_alloc_permit": this thread block allocates no more.
template <int Blocks>
__device__ inline void tcgen05_relinquish_alloc_permit() {
  if constexpr (Blocks == 1)
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
  else
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}

/// "tcgen05.fence": behind what this thread has done to tensor memory, in front of a barrier.
__device__ inline void tcgen05_fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
/// Behind a barrier, in front of what this thread does to tensor memory.
__device__ inline void tcgen05_fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Operands in shared memory, as their descriptors say ("Shared memory descriptor"): bits 0-13 the
// address, 16-29 and 32-45 strides, all in units of 16 bytes; 46-48 are 1; 61-63 the swizzle.

/// Rows of 128 bytes along k, 1024 bytes each eight rows, swizzled as a tensor copy of
/// TensorBoxes::swizzle_128 leaves them; `address`: a multiple of 1024, plus the bytes of k in
/// front (multiples of 16).
__device__ inline std::uint64_t tcgen05_descriptor_rows128(std::uint32_t address) {
  return std::uint64_t{2} << 61 | std::uint64_t{1} << 46 | std::uint64_t{1024 >> 4} << 32 |
         std::uint64_t{1} << 16 | (address & 0x3FFFFu) >> 4;
}
/// 32 rows of 16 bytes one after the other.
__device__ inline std::uint64_t tcgen05_descriptor_rows16(std::uint32_t address) {
  return std::uint64_t{1} << 46 | std::uint64_t{128 >> 4} << 32 | std::uint64_t{1} << 16 |
         (address & 0x3FFFFu) >> 4;
}

/// "tcgen05.cp": 512 bytes to four columns; row r of 16 bytes goes to lanes r, r + 32, r + 64 and r
/// + 96. A tile of 128x4 scales becomes what products read: the scales of row r of the tile in
/// column r / 32, lane r % 32 of each quarter.
template <int Blocks>
__device__ inline void tcgen05_cp_32x128b_warpx4(std::uint32_t tensor, std::uint64_t from) {
  MICROSCALE_TCGEN05_GROUP("tcgen05.cp", ".32x128b.warpx4 [%0], %1;", "r"(tensor), "l"(from)
                           : "memory");
}

/// "tcgen05.commit": an arrival at `mbarrier` when all copies and products that this thread
/// has started are done; of a pair, at that barrier of both blocks.
template <int Blocks>
__device__ inline void tcgen05_commit(std::uint32_t mbarrier) {
  if constexpr (Blocks == 1)
    asm volatile(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
            mbarrier)
        : "memory");
  else
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
        "[%0], %1;" ::"r"(mbarrier),
        "h"(static_cast<std::uint16_t>(3))
        : "memory");
}

// Products: d = a * b^T, plus d where `add`; a of 128 rows a block, b of as many as `instruction`
// says ("Instruction descriptor"), of a pair half in either block, 32 bytes of k of both. Row r of
// a is lane r of d, row c of b column c. scale_a, scale_b: tensor memory, of a pair b's in both.

#define MICROSCALE_TCGEN05_MMA(kind)                                        \
  MICROSCALE_TCGEN05_GROUP(                                                 \
      "{\n"                                                                 \
      ".reg .pred p;\n"                                                     \
      "setp.ne.b32 p, %6, 0;\n"                                             \
      "tcgen05.mma",                                                        \
      ".kind::" kind                                                        \
      " [%0], %1, %2, %3, [%4], [%5], p;\n"                                 \
      "}",                                                                  \
      "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(scale_a), "r"(scale_b), \
      "r"(static_cast<int>(add))                                            \
      : "memory")

/// E2M1, 64 of k; UE4M3 scales a 16 elements.
template <int Blocks>
__device__ inline void tcgen05_mma_mxf4nvf4_block16(std::uint32_t d, std::uint64_t a,
                                                    std::uint64_t b, std::uint32_t instruction,
                                                    std::uint32_t scale_a, std::uint32_t scale_b,
                                                    bool add) {
  MICROSCALE_TCGEN05_MMA("mxf4nvf4.block_scale.block16");
}
/// E2M1, 64 of k; UE8M0 scales a 32 elements.
template <int Blocks>
__device__ inline void tcgen05_mma_mxf4_block32(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                                                std::uint32_t instruction, std::uint32_t scale_a,
                                                std::uint32_t scale_b, bool add) {
  MICROSCALE_TCGEN05_MMA("mxf4.block_scale.block32");
}
/// A byte an element, 32 of k; UE8M0 scales a 32 elements.
template <int Blocks>
__device__ inline void tcgen05_mma_mxf8f6f4_block32(std::uint32_t d, std::uint64_t a,
                                                    std::uint64_t b, std::uint32_t instruction,
                                                    std::uint32_t scale_a, std::uint32_t scale_b,
                                                    bool add) {
  MICROSCALE_TCGEN05_MMA("mxf8f6f4.block_scale.block32");
}
#undef MICROSCALE_TCGEN05_MMA
#undef MICROSCALE_TCGEN05_GROUP

/// "tcgen05.ld": lane l of warp w of a warpgroup loads 32 (or 16) columns from `tensor` on, of lane
/// 32 w + l; `tensor` names lane 32 w. They are there behind tcgen05_wait_ld.
__device__ inline void tcgen05_ld_32x32b_x32(std::uint32_t (&v)[32], std::uint32_t tensor) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
      : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]),
        "=r"(v[7]), "=r"(v[8]), "=r"(v[9]), "=r"(v[10]), "=r"(v[11]), "=r"(v[12]), "=r"(v[13]),
        "=r"(v[14]), "=r"(v[15]), "=r"(v[16]), "=r"(v[17]), "=r"(v[18]), "=r"(v[19]), "=r"(v[20]),
        "=r"(v[21]), "=r"(v[22]), "=r"(v[23]), "=r"(v[24]), "=r"(v[25]), "=r"(v[26]), "=r"(v[27]),
        "=r"(v[28]), "=r"(v[29]), "=r"(v[30]), "=r"(v[31])
      : "r"(tensor)
      : "memory");
}
__device__ inline void tcgen05_ld_32x32b_x16(std::uint32_t (&v)[16], std::uint32_t tensor) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
      : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]),
        "=r"(v[7]), "=r"(v[8]), "=r"(v[9]), "=r"(v[10]), "=r"(v[11]), "=r"(v[12]), "=r"(v[13]),
        "=r"(v[14]), "=r"(v[15])
      : "r"(tensor)
      : "memory");
}

/// "tcgen05.wait": until all this thread has loaded is there. Keep the registers in place behind it
/// (control.cuh): it does not name them.
__device__ inline void tcgen05_wait_ld() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

}  // namespace microscale::ptx
