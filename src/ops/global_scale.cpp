// The global scale of an NVFP4 tensor; the arithmetic is formats/global_scale.hpp's.
#include "formats/global_scale.hpp"

#include "microscale/quantize.hpp"

namespace microscale {

float nvfp4_global_scale(float amax) { return global_scale_of(amax); }

}  // namespace microscale
