// Products of two block-scaled operands on consumer Blackwell (compute capability 12.x), by matrix
// instructions that take codes and scales as they are. docs/matmul_blackwell.md has the design.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device/device.hpp"
#include "cuda/device/entry.hpp"
#include "cuda/matmul/block_scaled/args.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda::block_scaled {

/// Rows of a matrix, or of an expert if all have equally many, from which on these kernels serve.
inline constexpr std::int64_t least_rows = 17;

/// Whether there is a kernel for these formats: NVFP4 x NVFP4, MXFP4 x MXFP4, MXFP8 x MXFP8 (any
/// of E4M3 and E5M2), MXFP8 E4M3 x MXFP4.
bool takes_formats(Format a, Format b);

/// "matmul_block_scaled_nvfp4_nvfp4", or "matmul_block_scaled_split_nvfp4_nvfp4", which shares K
/// out where tiles are few.
Entry<MatmulBlockScaledArgs> kernel_of(Format a, Format b, bool split = false);

struct Plan {
  std::int64_t tiles_down = 0, column_tiles = 0, matrix_tiles_down = 0;
  bool split = false;  // each tile's k among a cluster of split_parts
};

/// Of a product with elements of d, neither side packed. Throws Error{unsupported} where it has
/// more tiles than a grid.
Plan plan_of(const Product& product);
std::string describe(const Plan& plan);

/// One launch, no workspace, nothing waited for. Throws Error{unsupported} where the device has no
/// such kernel.
void run(Device& device, const Plan& plan, const Product& product, Stream stream);

}  // namespace microscale::cuda::block_scaled
