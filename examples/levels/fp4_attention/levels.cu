// All levels, compiled at once: each file adds its entry points, for heads of 128 and of 64
// elements.
#include "1_probe.cuh"
#include "8_packed.cuh"
