// Products of any number of rows of a, few at a time, on every architecture: one launch that makes
// a ready (FP16 units), and the product (cuda/matmul/fallback/kernel.cuh).
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device/device.hpp"
#include "cuda/matmul/fragment_order.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda::fallback {

/// How many rows of a at a time, and what lies where in the workspace, each part at a multiple of
/// 256 bytes: units of a, then block scales of a, then factors of its rows.
struct Plan {
  int rows_at_once = 8;  // 1, 8 or 16
  FragmentOrder order = FragmentOrder::packed;
  std::int64_t units_stride = 0, scales_at = 0, factors_at = 0;
  std::int64_t workspace_bytes = 0;
};

Plan plan_of(const Product& product);
std::string describe(const Plan& plan);

/// `workspace`: of the plan, at a multiple of 256.
void run(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
         Stream stream);

}  // namespace microscale::cuda::fallback
