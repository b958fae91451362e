// The global scale of an NVFP4 tensor; the arithmetic is formats/global_scale.hpp's.
#include "microscale/quantize.hpp"

namespace microscale {

float nvfp4_global_scale(float amax) { return nvfp4_global_scale(amax, Compat::none); }

}  // namespace microscale
