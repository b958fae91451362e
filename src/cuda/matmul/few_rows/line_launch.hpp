// Which products of one row of a with plain 4-bit weights are streamed on Hopper
// (cuda/matmul/few_rows/line_kernel.cuh), and how they are cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda/device/facts.hpp"
#include "cuda/matmul/few_rows/line_plan.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda {

struct LinePlan {
  std::uint32_t row_tiles, tiles;  // of a matrix, of all
  int stages;                      // of a row tile
  int depth;                       // of the ring
  int buffers;                     // matrices whose row of a is in shared memory at once
  int cluster;                     // blocks of one: 1 or 2
  int blocks;
  LineShared shared;
};

/// None where these kernels do not serve: one row of a (BF16, FP16, NVFP4 or MXFP4) in each matrix
/// of a batch, MXFP4 or NVFP4 weights that are not packed, not gated, a multiple of 16 scales a
/// row, in 128x4 tiles n a multiple of 128, all rows at multiples of 16 bytes, k short enough for
/// shared memory, on sm_90a.
std::optional<LinePlan> line_plan(const DeviceFacts& facts, const Product& product);
std::string describe(const LinePlan& plan);

/// One launch, no workspace.
void line_stream(Device& device, const LinePlan& plan, const Product& product, Stream stream);

}  // namespace microscale::cuda
