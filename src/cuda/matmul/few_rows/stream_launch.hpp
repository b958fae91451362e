// Which products of few rows of a are streamed on Hopper (cuda/matmul/few_rows/stream_kernel.cuh),
// and how they are cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda/device/facts.hpp"
#include "cuda/matmul/few_rows/stream_plan.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda {

struct StreamPlan {
  StreamCut cut;
  int rows_at_once;  // of a that the kernel takes: 8 or 16
  int units_rows;    // and keeps in shared memory: these, or all there are
  int chunks;        // of k
  int clusters;
  StreamShared shared;
};

/// None where these kernels do not serve: packed weights of MXFP4 or NVFP4, up to eight rows of a
/// of BF16, FP16 or NVFP4 (any number of FP16 by MXFP4), short enough for shared memory, on sm_90a.
std::optional<StreamPlan> stream_plan(const DeviceFacts& facts, const Product& product);
std::string describe(const StreamPlan& plan);

/// One launch, no workspace.
void matmul_stream(Device& device, const StreamPlan& plan, const Product& product, Stream stream);

}  // namespace microscale::cuda
