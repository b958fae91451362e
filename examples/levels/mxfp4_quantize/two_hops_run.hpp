// Times FP16 to MXFP4 by way of FP8 beside the direct way, and counts the codes that differ.
#pragma once

#include "../quantize_runs.hpp"

namespace levels {

/// `buffers`: an FP16 to MXFP4 problem.
void two_hops(const Bench& bench, const SharedBuffers& buffers);

}  // namespace levels
