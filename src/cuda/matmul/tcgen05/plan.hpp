// Products of two block-scaled operands on datacenter Blackwell (compute capability 10.x), by
// tcgen05.mma with block scales out of tensor memory. docs/matmul_blackwell.md has the design.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device/device.hpp"
#include "cuda/device/entry.hpp"
#include "cuda/matmul/product.hpp"
#include "cuda/matmul/tcgen05/args.hpp"

namespace microscale::cuda::tcgen05 {

/// Rows of a matrix, or of an expert if all have equally many, from which on these kernels serve.
inline constexpr std::int64_t least_rows = 17;

/// Whether there is a kernel for these formats: NVFP4 x NVFP4, MXFP4 x MXFP4, MXFP8 x MXFP8 (any
/// of E4M3 and E5M2).
bool takes_formats(Format a, Format b);

/// Whether they take the product: formats, rows enough, and k a multiple of the instruction's (64
/// of FP4, 32 of FP8).
bool takes(const Product& product);

/// "matmul_tcgen05_nvfp4_nvfp4_128x256".
Entry<MatmulTcgen05Args> kernel_of(Format a, Format b, TileShape shape);

struct Plan {
  TileShape shape = narrow;
  std::int64_t tiles_down = 0, column_tiles = 0, matrix_tiles_down = 0;
  int clusters = 0;
  /// Scales that lie in rows, as tiles: bytes of a's, of the weights', and of up's; 0 where they
  /// are in tiles.
  std::int64_t a_scale_bytes = 0, b_scale_bytes = 0, up_scale_bytes = 0;
  std::int64_t workspace_bytes = 0;
};

/// Whether tiles of that shape do for a product that these kernels take.
bool serves(TileShape shape, const Product& product);

/// Of a product with elements of d that they take, by tiles of that shape, or of the one that is
/// modelled to be through first. Throws Error{unsupported} where it has more tiles than fit 30
/// bits.
Plan plan_of(const DeviceInfo& device, const Product& product, TileShape shape);
Plan plan_of(const DeviceInfo& device, const Product& product);
std::string describe(const Plan& plan);

/// A launch, and one before it for each operand whose scales are in rows; nothing waited for.
/// Throws Error{unsupported} where the device has no such kernel.
void run(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
         Stream stream);

}  // namespace microscale::cuda::tcgen05
