// Small tensors, scales of a single pass, row-major.
#include "cuda/block/grid_order.cuh"
#include "cuda/quantize/small_tile.cuh"

#define MICROSCALE_SMALL_ENTRY(format, dtype, Format, Input)                        \
  extern "C" __global__ void __launch_bounds__(microscale::cuda::threads_per_block) \
      quantize_small_##format##_##dtype(                                            \
          const __grid_constant__ microscale::cuda::QuantizeArgs args) {            \
    microscale::cuda::follow_previous_grid();                                       \
    using namespace microscale;                                                     \
    cuda::quantize_small<cuda::Format, cuda::Input>(args);                          \
  }

#define MICROSCALE_SMALL_ENTRIES(format, Format)        \
  MICROSCALE_SMALL_ENTRY(format, f32, Format, InputF32) \
  MICROSCALE_SMALL_ENTRY(format, f16, Format, InputF16) \
  MICROSCALE_SMALL_ENTRY(format, bf16, Format, InputBf16)

namespace microscale::cuda {
using SmallMxfp4 = MxFormat<E2M1, false>;
using SmallMxfp8E4m3 = MxFormat<E4M3, false>;
using SmallMxfp8E5m2 = MxFormat<E5M2, false>;
using SmallNvfp4 = Nvfp4Format<false>;
}  // namespace microscale::cuda

MICROSCALE_SMALL_ENTRIES(mxfp4, SmallMxfp4)
MICROSCALE_SMALL_ENTRIES(mxfp8_e4m3, SmallMxfp8E4m3)
MICROSCALE_SMALL_ENTRIES(mxfp8_e5m2, SmallMxfp8E5m2)
MICROSCALE_SMALL_ENTRIES(nvfp4, SmallNvfp4)
