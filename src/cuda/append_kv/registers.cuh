// append_kv_registers_...: tokens of K or V as they lie in memory, quantized from registers.
#pragma once

#include "cuda/append_kv/plan.hpp"
#include "cuda/append_kv/token_run.cuh"

namespace microscale::cuda::append {

/// For d that has_whole_rows() says, and tokens that lie one stride apart in all of the input.
template <class Format, class Input>
__device__ void registers(const Args& args) {
  const Side& side = args.sides[blockIdx.z];
  using Run = TokenRun<Format, Input, Lanes::whole>;
  Run run(args, side);
  typename Format::Shared shared;
#pragma unroll 1
  for (int turn = 0; turn < args.turns; ++turn) {
    typename Run::Chunk w[4];
    run.load(w);
    if (run.begins_lanes()) run.find_target();  // while the loads are under way
    if (turn == 0) shared = Format::prepare(side.rules.global_scale);
    run.copy(w);
    run.quantize(shared, w);
    run.next();
  }
}

}  // namespace microscale::cuda::append
