// Launches what makes rows of an operand ready for the kernels of many rows: elements of 16 bits
// with their scales inside, in tiles (layouts/token_tiles.hpp).
#pragma once

#include "cuda/device/device.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda {

/// Blocks of a kernel that most likely finds nothing to do (PrepareTilesArgs::only_if).
inline constexpr std::int64_t blocks_that_rarely_work = 256;

/// a of `product`, to `tiles`.
PrepareTilesArgs prepare_tiles_args(const Product& product, bool f16, void* tiles);

/// `format`: of the rows; none: dense.
void prepare_tiles(Device& device, const char* operation, const std::optional<Format>& format,
                   const PrepareTilesArgs& args, Stream stream);

}  // namespace microscale::cuda
