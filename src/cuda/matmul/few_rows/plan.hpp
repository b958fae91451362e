// Products of few rows of a with 4-bit weights on Hopper, streamed through rings in shared memory:
// what choose() asks (choose), and what runs what it was told (run).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "cuda/device/facts.hpp"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda::few_rows {

/// Packed weights.
struct PackedPlan {
  PackedCut cut;
  int rows_at_once;  // of a that the kernel takes: 8 or 16
  int units_rows;    // and keeps in shared memory: these, or all there are
  int chunks;        // of k
  int clusters;
  PackedShared shared;
};

/// Weights as they lie in a checkpoint.
struct UnpackedPlan {
  std::uint32_t row_tiles, tiles;  // of a matrix, of all
  int stages;                      // of a row tile
  int depth;                       // of the ring
  int buffers;                     // matrices whose row of a is in shared memory at once
  int cluster;                     // blocks of one: 1 or 2
  int blocks;
  UnpackedShared shared;
};

using Plan = std::variant<PackedPlan, UnpackedPlan>;

/// Of a product that has elements of d. None where these kernels do not serve; they do on sm_90a,
/// where rows of a are short enough for shared memory, MXFP4 and NVFP4 weights:
/// - packed, by up to eight rows of a (of experts on average) of BF16, FP16 or NVFP4, and by any
///   number of FP16 by MXFP4;
/// - unpacked and not gated, by one row of a (BF16, FP16, NVFP4 or MXFP4) in each matrix of a
/// batch,
///   a multiple of 16 scales a row, in 128x4 tiles n a multiple of 128, all rows at multiples of 16
///   bytes.
std::optional<Plan> choose(const DeviceFacts& facts, const Product& product);
std::string describe(const Plan& plan);

/// One launch, no workspace, nothing waited for.
void run(Device& device, const Plan& plan, const Product& product, Stream stream);

}  // namespace microscale::cuda::few_rows
