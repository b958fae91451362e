// Kernels by name, for the GPU at hand: finds the image of its architecture, loads it once.
// Launches an entry point of cuda/kernel_table.hpp with the arguments it takes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/device/entry.hpp"
#include "cuda/device/kernel_images.hpp"
#include "cuda/device/kernel_types.hpp"

namespace microscale::cuda {

/// "sm_90a" for 9.0, "sm_100f" for 10.x, "sm_120f" for 12.x; empty for a GPU that no kernel is
/// built for.
std::string_view architecture_of(const DeviceInfo& device);

/// The entry points of one image.
std::vector<std::string_view> names_in(const KernelImage& image);

/// Whether an image for `architecture` defines `name` (an entry of its PTX).
bool has_kernel(std::string_view architecture, std::string_view name);

/// Every entry point of the images for `architecture`, in alphabetical order.
std::vector<std::string> kernel_names(std::string_view architecture);

/// Throws Error{unsupported}, naming `operation`, when the GPU's architecture has no kernels or
/// none called `name`.
Kernel load_kernel(Device& device, const std::string& name, const char* operation);

/// The kernel of an entry point on that device, loaded when it is first asked for; `id` as in
/// cuda/device/entry.hpp, negative for none. Takes no lock once it is loaded. Throws as
/// load_kernel.
Kernel entry_kernel(Device& device, std::int32_t id, std::string_view name, const char* operation);
template <class Args>
Kernel entry_kernel(Device& device, const Entry<Args>& entry, const char* operation) {
  return entry_kernel(device, entry.id, entry.name, operation);
}

/// Loads every image of the device's architecture.
void load_all_kernels(Device& device);

/// For a device that ends before the process does: another may be at its address.
void forget_kernels(const Device& device) noexcept;

/// Launches `entry`. `shared_bytes`: dynamic, of a block; `cluster`: blocks of one. Throws
/// Error{unsupported} naming `operation` where the device has no such kernel.
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

/// A number that no other call has, and memory by no chance, of whatever process; never 0, as which
/// flags are forgotten.
std::uint64_t next_ticket();

}  // namespace microscale::cuda
