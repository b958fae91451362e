// Which plan a choice of products gets on a GPU, as text: what `microscale bench matmul --plan`
// prints, docs/matmul.md shows and tests/cuda/matmul/plan_table_test.cpp compares.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/device/facts.hpp"

namespace microscale::cuda {

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
