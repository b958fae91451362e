// Launches an entry point of cuda/kernel_table.hpp with the arguments it takes.
#pragma once

#include "cuda/device/kernels.hpp"
#include "cuda/device/launch_shape.hpp"

namespace microscale::cuda {

/// `shared_bytes`: dynamic, of a block; `cluster`: blocks of one. Throws Error{unsupported} naming
/// `operation` where the device has no such kernel.
template <class Args>
void launch(Device& device, const Entry<Args>& entry, const char* operation, const Launch& shape,
            const Args& args, Stream stream, int shared_bytes = 0, int cluster = 1) {
  device.launch({.kernel = entry_kernel(device, entry, operation),
                 .grid = {shape.grid_x, shape.grid_y, shape.grid_z},
                 .threads = static_cast<int>(shape.threads),
                 .shared_bytes = shared_bytes,
                 .cluster = cluster,
                 .stream = stream,
                 .args = &args,
                 .args_bytes = sizeof(Args)});
}

}  // namespace microscale::cuda
