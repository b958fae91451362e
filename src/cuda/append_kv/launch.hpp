// append_kv on device memory: which kernel serves a call, and its launches.
#pragma once

#include "cuda/device/device.hpp"
#include "microscale/kv_cache.hpp"

namespace microscale::cuda {

/// `options` as append_kv has checked them; whether memory is the device's is checked here. K and V
/// are written by one launch, or by one each where different kernels serve them. Ordered by
/// `stream`; allocates and waits for nothing. Throws Error.
void append_kv(Device& device, const AppendKvOptions& options, Stream stream);

}  // namespace microscale::cuda
