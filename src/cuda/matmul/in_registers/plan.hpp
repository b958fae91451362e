// Products of many rows of a on Hopper whose kernels decode weights in registers: packed ones, and
// NVFP4 by NVFP4 as they are. Prepares a in the workspace unless it is read as it is, then
// multiplies. No arithmetic here, nothing allocated, nothing waited for.
//
// Sums are FP32 in the order of k, 16 elements an instruction, which aligns its products and the
// sum so far to the largest of them and truncates; of up to 16 rows, 64 elements in turn go to one
// of two such sums, which are added. Where whole tiles of d would leave multiprocessors idle, up to
// most_ranges sums of ranges of k are added: to the last range's the others', in their order.
// An element of d is within (11 k / 16 + 8) * 2^-24 * (sum of |a_i b_i|) of the exact sum before
// the epilogue, k filled up to 64 (docs/matmul_hopper.md). The order depends on shapes, formats,
// how many rows each expert has, and the device's number of multiprocessors alone.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device/device.hpp"
#include "cuda/device/entry.hpp"
#include "cuda/matmul/in_registers/args.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda::in_registers {

/// Rows of a matrix, or of an expert if all have equally many, from which on these kernels serve.
inline constexpr std::int64_t least_rows = 9;

/// Whether there are kernels for these formats on this device: sm_90a; b MXFP4, NVFP4 or MXFP8; a
/// BF16 or one of these formats, or FP16 where b is NVFP4 (FP16 cannot hold a weight of MX with its
/// scale, nor BF16 an element of FP16).
bool takes(const DeviceInfo& device, const Product& product);

/// Whether kernels read these weights as they are, not packed: NVFP4 by rows of NVFP4, k a multiple
/// of 64, codes at multiples of 16 bytes and scales at multiples of 4.
bool takes_unpacked(const Product& product);

/// Whether 16-bit elements are FP16, else BF16: NVFP4 elements fit FP16 with their scale, so NVFP4
/// weights may be multiplied by rows of FP16; and by rows of NVFP4, unless the kernel decodes
/// packed weights, whose order is that of BF16.
bool multiplies_f16(const Product& product, bool decodes_packed);

/// Tiles of d at most: how `rows` rows are shared out among experts only the device knows.
std::int64_t most_tiles_of(TileShape shape, std::int64_t n, bool gated, std::int64_t rows,
                           std::int64_t matrices, bool experts);

/// How a product is cut: into tiles of d, and some of these into ranges of k, whose sums the
/// block of the last range adds to its own.
struct Tiling {
  TileShape shape;
  TileCut cut;
  bool cut_by_kernel;       // experts: only the device knows how many tiles there are
  std::int64_t most_tiles;  // of d
  std::int64_t blocks;      // that are launched
  std::int64_t cycles;      // predicted

  std::int64_t cutting_blocks() const { return cut_by_kernel ? blocks : cut.blocks; }
  /// Of the workspace behind a: the sums of a range for each block that has ranges, then a flag of
  /// eight bytes for each of its warpgroups.
  std::int64_t sums_bytes() const { return cutting_blocks() * sum_bytes_of(shape); }
  std::int64_t flag_bytes() const { return 8 * shape.warpgroups * cutting_blocks(); }
};

/// The way to cut `tiles` of them that takes the fewest cycles.
CutChoice best_cut(const TileCosts& costs, std::int64_t tiles, std::int64_t chunks,
                   int multiprocessors);

/// The plan that takes the fewest cycles, as predicted. Experts are taken to have equally many
/// rows, or such that each has half a tile that is not filled, which counts as much; where they
/// have few tiles the kernel cuts what it finds, but for those of 256 rows, whose sizes differ too
/// much for equal shares. These are for plain weights alone: of packed ones they are slower, as
/// measured (docs/performance/matmul_gpu.md, 40).
Tiling tiling_of(std::int64_t n, std::int64_t k, bool gated, std::int64_t rows,
                 std::int64_t matrices, bool experts, int tile_bytes, bool unpacked,
                 int multiprocessors);

struct Plan {
  Tiling cut;
  bool reads_rows = false;           // of a as they are: 16-byte pieces
  bool f16 = false;                  // elements of a and decoded weights, else BF16
  std::int64_t token_bytes = 0;      // of a in the workspace
  std::int64_t workspace_bytes = 0;  // those, then sums of ranges of k and flags
};

/// Of a product that is taken and has elements of d.
Plan plan_of(const DeviceInfo& device, const Product& product);
Entry<Args> kernel_of(const Plan& plan, const Product& product);
std::string describe(const Plan& plan);

/// One launch where a is read as it is, else two. `workspace`: of the plan, at a multiple of 256.
void run(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
         Stream stream);

}  // namespace microscale::cuda::in_registers
