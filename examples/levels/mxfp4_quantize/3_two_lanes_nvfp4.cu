// NVFP4, the same level: 16 elements share a scale, so two lanes take a block and one shuffle finds
// its largest magnitude. The scale is an E4M3 number times the tensor's global scale, which is
// given.
#include <vector>

#include "cuda/block/block_scale.cuh"
#include "encoders/arithmetic.cuh"
#include "encoders/hardware.cuh"
#include "encoders/thresholds.cuh"
#include "ladder.hpp"
#include "lane.cuh"

namespace levels {
namespace {

template <class Encoder, class Element>
__global__ void two_lanes_nvfp4(Args args) {
  const std::int64_t lane_in_grid =
      static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t first = lane_in_grid * lane_elements;
  const bool inside = first < args.rows * args.cols;
  float x[8] = {};
  if (inside) load_eight(static_cast<const Element*>(args.input) + first, x);

  float amax = amax_of_eight(x);
  amax = fmaxf(amax, __shfl_xor_sync(whole_warp, amax, 1));

  // amax / 6 / global_scale to the nearest E4M3 number; elements times 1 / (that number *
  // global_scale).
  using namespace microscale;
  const float factor = __fmul_rn(__frcp_rn(args.global_scale), 1.0f / 6.0f);
  const std::uint32_t scale = cuda::nvfp4_nearest_code(__float_as_uint(amax), factor);
  const float multiplier = cuda::nvfp4_multiplier_rn(scale, args.global_scale);

  if (!inside) return;
  ptx::st_global_b32(args.codes + first / 2, encode_eight<Encoder>(x, multiplier));
  if (threadIdx.x % 2 == 0) args.scales[first / 16] = static_cast<std::uint8_t>(scale);
}

template <class Encoder, class Element>
Level level() {
  return level_of<Encoder, Element, 256 * lane_elements>("3 two lanes a block, NVFP4",
                                                         two_lanes_nvfp4<Encoder, Element>);
}

}  // namespace

std::vector<Level> two_lanes_nvfp4_levels() {
  return {level<Thresholds<true>, Half>(), level<Arithmetic, Half>(), level<Hardware, Half>()};
}

}  // namespace levels
