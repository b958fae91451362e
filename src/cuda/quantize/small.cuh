// Dense to block-scaled where there is too little to fill the machine with four chunks a lane: one
// chunk of eight elements each, no table, no loop, so that every lane is under way at once.
#pragma once

#include <cstdint>

#include "cuda/quantize/args.hpp"
#include "cuda/block/mx_format.cuh"
#include "cuda/block/nvfp4_format.cuh"

namespace microscale::cuda {

/// A block's scale byte, what its elements are multiplied by (`told`, as in the format), and
/// whether encode() takes them.
struct SmallPlan {
  std::uint32_t told, scale;
  bool plain;
};

template <class Input, class Codec>
__device__ SmallPlan small_plan(MxFormat<Codec, false>, const QuantizeArgs& args,
                                std::uint32_t amax) {
  using Format = MxFormat<Codec, false>;
  const uint2 found = Format::plan_any(args, {}, amax);
  return {found.x, found.y, Format::template is_plain<Input>({}, found.x)};
}

template <class Input>
__device__ SmallPlan small_plan(Nvfp4Format<false>, const QuantizeArgs& args, std::uint32_t amax) {
  if (is_nan_block(args, amax)) return {nan_block, nvfp4_nan_scale, false};
  const float global_scale = *args.global_scale;
  const float factor = __fmul_rn(__frcp_rn(global_scale), 1.0f / 6.0f);
  const std::uint32_t code =
      amax >= infinity_bits ? nvfp4_max_scale : nvfp4_nearest_code(amax, factor);
  const float multiplier = nvfp4_multiplier_rn(code, global_scale);
  // An eighth of a multiplier from 2^-100 on is still exact.
  return {__float_as_uint(multiplier), code, amax == 0 || multiplier >= 0x1p-100f};
}

/// Row-major scales.
template <class Format, class Input>
__device__ void quantize_small(const QuantizeArgs& args) {
  constexpr int lanes = Format::block / chunk_elements;
  const int shift = args.tiles.column_shift;
  const std::int64_t row = (blockIdx.y + static_cast<std::int64_t>(gridDim.y) * blockIdx.z) *
                               (threads_per_block >> shift) +
                           (threadIdx.x >> shift);
  const std::int64_t chunk =
      (static_cast<std::int64_t>(blockIdx.x) << shift) + (threadIdx.x & ((1u << shift) - 1));
  const bool inside = row < args.rows && chunk * chunk_elements < args.cols;
  const std::int64_t element = inside ? row * args.row_stride + chunk * chunk_elements : 0;
  std::uint32_t w[Input::words];
  Input::load(static_cast<const char*>(args.input) + element * Input::element_bytes, w);

  std::uint32_t amax = Input::amax_bits(w);
  const bool with_nan = !args.nan_propagates && amax > infinity_bits;
  if (with_nan) amax = amax_without_nan<Input>(w);
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2)
    amax = max(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, distance));
  const SmallPlan plan = small_plan<Input>(Format{}, args, amax);
  typename Format::Codes codes;
  if (plan.plain && !with_nan)
    codes = Format::template encode<Input>(w, plan.told);
  else
    codes = Format::template encode_any<Input>(w, plan.told);
  if (args.zero_is_positive) codes = Format::positive_zeros(codes);
  if (inside) Format::store(args.codes + row * args.code_stride + chunk * Format::code_bits, codes);

  const std::int64_t blocks = static_cast<std::uint64_t>(args.cols) / Format::block;
  std::uint8_t* const scales = args.scales + row * blocks + chunk / lanes;
  if (args.tiles.scale_words) {
    std::uint32_t word = plan.scale & 0xFFu;
    word |= __shfl_down_sync(0xFFFFFFFFu, word, lanes) << 8;
    word |= __shfl_down_sync(0xFFFFFFFFu, word, 2 * lanes) << 16;
    if (inside && chunk % (4 * lanes) == 0) ptx::st_global_b32(scales, word);
  } else if (inside && chunk % lanes == 0) {
    *scales = static_cast<std::uint8_t>(plan.scale);
  }
}

}  // namespace microscale::cuda
