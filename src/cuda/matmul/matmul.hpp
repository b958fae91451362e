// Matrix products on device memory. A plan says how a product runs: which family of kernels
// multiplies, and what surrounds it; its workspace and its launches are read off it. No arithmetic
// here. Ordered by `stream`; nothing is allocated or waited for once kernels are loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/device/facts.hpp"
#include "cuda/matmul/block_scaled/plan.hpp"
#include "cuda/matmul/expanded/plan.hpp"
#include "cuda/matmul/fallback/plan.hpp"
#include "cuda/matmul/few_rows/plan.hpp"
#include "cuda/matmul/in_registers/plan.hpp"
#include "cuda/matmul/product.hpp"
#include "cuda/matmul/tcgen05/plan.hpp"
#include "cuda/matmul/vector/plan.hpp"
#include "seam/matmul_call.hpp"
#include "seam/matmul_plan.hpp"

namespace microscale::cuda {

struct Plan {
  /// Nothing to do: d has no element.
  using Nothing = std::monostate;
  std::variant<Nothing, few_rows::Plan, in_registers::Plan, expanded::Plan, block_scaled::Plan,
               tcgen05::Plan, vector::Plan, fallback::Plan>
      family{};
  /// The workspace, in this order, each part at a multiple of 256 bytes: weights that are packed on
  /// the way, sums of a d that is quantized by a launch of its own, and what the family needs.
  std::int64_t packed_bytes = 0, sums_bytes = 0, family_bytes = 0;

  bool packs() const { return packed_bytes > 0; }
  bool quantizes_sums() const { return sums_bytes > 0; }
  std::int64_t workspace_bytes() const { return packed_bytes + sums_bytes + family_bytes; }
};

/// A function of the device's facts, and of the product's shapes, formats, strides and alignments.
/// The product is one that check_product passes. Throws Error{unsupported}.
Plan choose(const DeviceFacts& facts, const Product& product);

/// "in_registers 256x64, 128 blocks, 32 tiles in 128 parts; workspace 8392704 bytes": the family,
/// its tiles (of rows of the weights by rows of a), its blocks, and how work is cut among them.
std::string describe(const Plan& plan);
std::string describe_kernels(const Plan& plan);  // without the workspace

/// A call that check_matmul has passed. `workspace`: matmul_workspace_bytes of device memory.
/// Throws Error.
void matmul(Device& device, const MatmulCall& call, std::span<std::uint8_t> workspace,
            Stream stream);
std::int64_t matmul_workspace_bytes(Device& device, const MatmulCall& call);

/// The two halves of matmul(), for those who run a product again and again: the plan of a checked
/// call, and a call of the same shapes, types and strides by it. Throws Error.
Plan plan_matmul(const DeviceFacts& facts, const MatmulCall& call);
void run_matmul(Device& device, const Plan& plan, const MatmulCall& call,
                std::span<std::uint8_t> workspace, Stream stream);

/// The same two for MatmulPlan, of a device that outlives it.
std::unique_ptr<GpuMatmulPlan> keep_plan(Device& device, const MatmulCall& call);

/// Weights in layouts/fragment_tiles.hpp. Throws Error{unsupported} for formats that no kernel has.
std::int64_t packed_weights_bytes(const BlockShape& shape, std::int64_t matrices, bool gated);
/// Operands as pack_weights has checked them; `up` null: not gated.
PackedWeights pack_weights(Device& device, const BlockTensorView& b, const BlockTensorView* up,
                           std::span<std::uint8_t> bytes, std::int64_t matrices, Stream stream);

/// Rows of a from `first` to `last` that run alike.
struct PlanRow {
  std::string product;  // "nvfp4 x nvfp4 packed"
  std::int64_t first, last, n, k;
  std::string plan;              // describe(), without the workspace
  std::int64_t workspace_bytes;  // of `last`
};

/// Every kind of product, from one row to 8192. Of the GPU only its facts are asked: it need not be
/// here.
std::vector<PlanRow> plan_rows(const DeviceInfo& gpu);

/// The rows of every described GPU, those of equal facts once.
std::string plan_table();

}  // namespace microscale::cuda
