// Which products of few rows of a are streamed on Hopper (cuda/matmul/few_rows/stream_kernel.cuh),
// and how they are cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "seam/matmul_call.hpp"
#include "cuda/device/device.hpp"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/few_rows/stream_plan.hpp"

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
/// `each`: rows of a matrix, on average.
std::optional<StreamPlan> stream_plan(Device& device, const MatmulCall& call,
                                      const ProductRows& rows, std::int64_t each);

/// `a`, `args`: as for matmul_rows; nothing is prepared.
void matmul_stream(Device& device, const MatmulCall& call, const StreamPlan& plan,
                   const PrepareRowsArgs& a, const MatmulRowsArgs& args, Stream stream);

}  // namespace microscale::cuda
