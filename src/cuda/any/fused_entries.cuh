// Names the entry points of one fused kernel: every format, dense type and mode.
#pragma once

#include "cuda/quantize/lane_tile.cuh"

// MICROSCALE_FUSED_ENTRY(format, dtype, mode, Format, Input) is the including file's.
#define MICROSCALE_FUSED_TYPES(format, mode, Format)          \
  MICROSCALE_FUSED_ENTRY(format, f32, mode, Format, InputF32) \
  MICROSCALE_FUSED_ENTRY(format, f16, mode, Format, InputF16) \
  MICROSCALE_FUSED_ENTRY(format, bf16, mode, Format, InputBf16)

namespace microscale::cuda {
using FusedMxfp4 = MxFormat<E2M1, false>;
using FusedMxfp4Search = MxFormat<E2M1, true>;
using FusedMxfp8E4m3 = MxFormat<E4M3, false>;
using FusedMxfp8E4m3Search = MxFormat<E4M3, true>;
using FusedMxfp8E5m2 = MxFormat<E5M2, false>;
using FusedMxfp8E5m2Search = MxFormat<E5M2, true>;
using FusedNvfp4 = Nvfp4Format<false>;
using FusedNvfp4Search = Nvfp4Format<true>;
}  // namespace microscale::cuda

#define MICROSCALE_FUSED_ENTRIES                                   \
  MICROSCALE_FUSED_TYPES(mxfp4, plain, FusedMxfp4)                 \
  MICROSCALE_FUSED_TYPES(mxfp4, search, FusedMxfp4Search)          \
  MICROSCALE_FUSED_TYPES(mxfp8_e4m3, plain, FusedMxfp8E4m3)        \
  MICROSCALE_FUSED_TYPES(mxfp8_e4m3, search, FusedMxfp8E4m3Search) \
  MICROSCALE_FUSED_TYPES(mxfp8_e5m2, plain, FusedMxfp8E5m2)        \
  MICROSCALE_FUSED_TYPES(mxfp8_e5m2, search, FusedMxfp8E5m2Search) \
  MICROSCALE_FUSED_TYPES(nvfp4, plain, FusedNvfp4)                 \
  MICROSCALE_FUSED_TYPES(nvfp4, search, FusedNvfp4Search)
