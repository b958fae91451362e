// How a product runs: which family of kernels multiplies, and what surrounds it. choose() makes a
// plan, once a call; its workspace and its launches are read off it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "cuda/device/facts.hpp"
#include "cuda/matmul/block_scaled/plan.hpp"
#include "cuda/matmul/expanded/plan.hpp"
#include "cuda/matmul/fallback/plan.hpp"
#include "cuda/matmul/few_rows/plan.hpp"
#include "cuda/matmul/in_registers/plan.hpp"
#include "cuda/matmul/product.hpp"
#include "cuda/matmul/vector/plan.hpp"

namespace microscale::cuda {

struct Plan {
  /// Nothing to do: d has no element.
  using Nothing = std::monostate;
  std::variant<Nothing, few_rows::Plan, in_registers::Plan, expanded::Plan, block_scaled::Plan,
               vector::Plan, fallback::Plan>
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

}  // namespace microscale::cuda
