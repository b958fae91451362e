// MXFP4, level 1: one thread takes one block of 32 elements and does everything alone.
//
// Right at the first try, and slow: the lanes of a warp read addresses 64 or 128 bytes apart, so
// each load instruction of a warp touches 32 different pieces of memory where two or four would do.
#include <vector>

#include "block.cuh"
#include "encoders/arithmetic.cuh"
#include "encoders/distances.cuh"
#include "encoders/hardware.cuh"
#include "encoders/thresholds.cuh"
#include "ladder.hpp"

namespace levels {
namespace {

template <class Encoder, class Element>
__global__ void thread_per_block(Args args) {
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (block >= args.rows * args.cols / 32) return;
  const Element* x = static_cast<const Element*>(args.input) + block * 32;

  float amax = 0;
  for (int i = 0; i < 32; ++i) amax = fmaxf(amax, fabsf(to_float(x[i])));
  const std::uint32_t scale = floor_scale(amax);
  const float multiplier = inverse_scale(scale);

  for (int i = 0; i < 32; i += 2) {  // two codes a byte, the even element in the low half
    const std::uint32_t low = Encoder::encode(to_float(x[i]) * multiplier);
    const std::uint32_t high = Encoder::encode(to_float(x[i + 1]) * multiplier);
    args.codes[block * 16 + i / 2] = static_cast<std::uint8_t>(low | high << 4);
  }
  args.scales[block] = static_cast<std::uint8_t>(scale);
}

template <class Encoder, class Element>
Level level() {
  return level_of<Encoder, Element, 256 * 32>("1 thread a block",
                                              thread_per_block<Encoder, Element>);
}

}  // namespace

std::vector<Level> thread_per_block_levels() {
  return {level<Distances, Half>(),        level<Thresholds<false>, Half>(),
          level<Thresholds<true>, Half>(), level<Arithmetic, Half>(),
          level<Hardware, Half>(),         level<Thresholds<true>, float>(),
          level<Arithmetic, float>()};
}

}  // namespace levels
