// MXFP4, level 3: four lanes take one block, eight elements a lane.
//
// One load instruction of a warp now brings 512 bytes. Seven of eight maxima need no other lane, so
// two shuffles replace five; a lane's eight codes are one word, so packing needs none at all and
// the codes of a warp leave in one 128-byte store.
#include <vector>

#include "encoders/arithmetic.cuh"
#include "encoders/distances.cuh"
#include "encoders/hardware.cuh"
#include "encoders/thresholds.cuh"
#include "ladder.hpp"
#include "lane.cuh"

namespace levels {
namespace {

template <class Encoder, class Element>
__global__ void four_lanes(Args args) {
  const std::int64_t lane_in_grid =
      static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t first = lane_in_grid * lane_elements;
  const bool inside = first < args.rows * args.cols;
  float x[8] = {};
  if (inside) load_eight(static_cast<const Element*>(args.input) + first, x);

  float amax = amax_of_eight(x);
  amax = fmaxf(amax, __shfl_xor_sync(whole_warp, amax, 1));
  amax = fmaxf(amax, __shfl_xor_sync(whole_warp, amax, 2));
  const std::uint32_t scale = floor_scale(amax);

  if (!inside) return;
  const std::uint32_t codes = encode_eight<Encoder>(x, inverse_scale(scale));
  microscale::ptx::st_global_b32(args.codes + first / 2, codes);
  if (threadIdx.x % 4 == 0) args.scales[first / 32] = static_cast<std::uint8_t>(scale);
}

template <class Encoder, class Element>
Level level() {
  return level_of<Encoder, Element, 256 * lane_elements>("3 four lanes a block",
                                                         four_lanes<Encoder, Element>);
}

}  // namespace

std::vector<Level> four_lanes_levels() {
  return {level<Distances, Half>(),        level<Thresholds<false>, Half>(),
          level<Thresholds<true>, Half>(), level<Arithmetic, Half>(),
          level<Hardware, Half>(),         level<Thresholds<true>, float>(),
          level<Arithmetic, float>()};
}

}  // namespace levels
