// MXFP4, level 2: one warp takes one block, one element a lane.
//
// The 32 lanes read 32 neighbours: one piece of memory. The largest magnitude goes round by five
// shuffles, and a sixth hands each even lane its neighbour's code. But a load brings only 64 or 128
// bytes to a warp, and every lane runs the whole bookkeeping for one single element.
#include <vector>

#include "block.cuh"
#include "encoders/arithmetic.cuh"
#include "encoders/distances.cuh"
#include "encoders/hardware.cuh"
#include "encoders/thresholds.cuh"
#include "ladder.hpp"

namespace levels {
namespace {

constexpr unsigned whole_warp = 0xFFFFFFFFu;

template <class Encoder, class Element>
__global__ void warp_per_block(Args args) {
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t block = element / 32;
  const int lane = threadIdx.x % 32;
  if (block >= args.rows * args.cols / 32) return;  // a whole warp leaves, or none of it
  const float x = to_float(static_cast<const Element*>(args.input)[element]);

  float amax = fabsf(x);
  for (int distance = 16; distance > 0; distance /= 2)
    amax = fmaxf(amax, __shfl_xor_sync(whole_warp, amax, distance));
  const std::uint32_t scale = floor_scale(amax);

  const std::uint32_t code = Encoder::encode(x * inverse_scale(scale));
  const std::uint32_t neighbour = __shfl_xor_sync(whole_warp, code, 1);
  if (lane % 2 == 0) args.codes[element / 2] = static_cast<std::uint8_t>(code | neighbour << 4);
  if (lane == 0) args.scales[block] = static_cast<std::uint8_t>(scale);
}

template <class Encoder, class Element>
Level level() {
  return level_of<Encoder, Element, 256>("2 warp a block", warp_per_block<Encoder, Element>);
}

}  // namespace

std::vector<Level> warp_per_block_levels() {
  return {level<Distances, Half>(),        level<Thresholds<false>, Half>(),
          level<Thresholds<true>, Half>(), level<Arithmetic, Half>(),
          level<Hardware, Half>(),         level<Thresholds<true>, float>(),
          level<Arithmetic, float>()};
}

}  // namespace levels
