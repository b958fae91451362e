// FP16 to FP8 to FP4: two easy hops instead of one, and what they cost. The first hop writes E4M3
// of the whole tensor times a power of two; the second reads it back and makes MXFP4 of it.
//
// Bytes an element: 2 + 1 written, 1 + 0.53 read back: 4.53 against 2.53 in one hop. And two
// roundings are not one: codes differ where the first landed on, or across, a midpoint of the
// second.
#include <vector>

#include "cuda/ptx/packed.cuh"
#include "encoders/arithmetic.cuh"
#include "ladder.hpp"
#include "lane.cuh"

namespace levels {
namespace {

using namespace microscale;

/// args.codes: one E4M3 byte an element; args.global_scale: the power of two.
__global__ void half_to_fp8(Args args) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * lane_elements;
  if (first >= args.rows * args.cols) return;
  float x[8];
  load_eight(static_cast<const Half*>(args.input) + first, x);
  std::uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pairs[i] = ptx::cvt_rn_satfinite_e4m3x2_f32(x[2 * i] * args.global_scale,
                                                x[2 * i + 1] * args.global_scale);
  ptx::st_global_v2(args.codes + first, pairs[0] | pairs[1] << 16, pairs[2] | pairs[3] << 16);
}

/// args.input: those bytes; args.global_scale: the same power of two, divided out again.
__global__ void fp8_to_mxfp4(Args args) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * lane_elements;
  const bool inside = first < args.rows * args.cols;
  uint2 v = {};
  if (inside) v = ptx::ld_global_nc_v2(static_cast<const std::uint8_t*>(args.input) + first);
  const float back = __frcp_rn(args.global_scale);
  float x[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t pair = (i < 2 ? v.x : v.y) >> (i % 2 * 16);
    const std::uint32_t halves = ptx::cvt_rn_f16x2_e4m3x2(pair);
    x[2 * i] = ptx::cvt_f32_f16(halves & 0xFFFFu) * back;
    x[2 * i + 1] = ptx::cvt_f32_f16(halves >> 16) * back;
  }
  float amax = amax_of_eight(x);
  amax = fmaxf(amax, __shfl_xor_sync(whole_warp, amax, 1));
  amax = fmaxf(amax, __shfl_xor_sync(whole_warp, amax, 2));
  const std::uint32_t scale = floor_scale(amax);
  if (!inside) return;
  ptx::st_global_b32(args.codes + first / 2, encode_eight<Arithmetic>(x, inverse_scale(scale)));
  if (threadIdx.x % 4 == 0) args.scales[first / 32] = static_cast<std::uint8_t>(scale);
}

}  // namespace

std::vector<Level> two_hop_levels() {
  return {level_of<Arithmetic, Half, 256 * lane_elements>("FP16 to FP8", half_to_fp8),
          level_of<Arithmetic, Half, 256 * lane_elements>("FP8 to MXFP4", fp8_to_mxfp4)};
}

}  // namespace levels
