// The seam between operations and whatever executes kernels: the CUDA runtime, or a machine that
// runs PTX. Every function throws Error and leaves no error behind in the runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cuda/device/kernel_images.hpp"
#include "cuda/device/kernel_types.hpp"
#include "microscale/memory.hpp"

namespace microscale::cuda {

/// Opaque handles of the implementation; null is the default stream, or "none".
using Stream = void*;
using Event = void*;
using Module = void*;
using Kernel = const void*;
using Graph = void*;

struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  bool reports_stray_accesses = false;  // a launch that leaves its allocations fails
};

// device: a kernel on this device may touch it.
using Memory = microscale::Memory;

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchCall {
  Kernel kernel = nullptr;
  Grid grid;             // in thread blocks
  int threads = 1;       // of a block
  int shared_bytes = 0;  // dynamic
  int cluster = 1;       // blocks of a cluster, along x; of a kernel that does not say so itself
  Stream stream = nullptr;
  const void* args = nullptr;  // the kernel's one parameter, copied before the call returns
  std::int64_t args_bytes = 0;
};

/// The kernels of one device that were found already, by the id of their entry point
/// (cuda/device/entry.hpp); null: not yet. Read and written by any number of threads.
class FoundKernels {
 public:
  FoundKernels();
  std::atomic<Kernel>& operator[](std::int32_t id) { return kernels_[id]; }

 private:
  std::unique_ptr<std::atomic<Kernel>[]> kernels_;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  /// What follows on the calling thread happens on this device.
  virtual void make_current() = 0;

  virtual void* allocate(std::int64_t bytes) = 0;  // aligned to 256 bytes
  virtual void release(void* memory) noexcept = 0;
  virtual Memory memory_of(const void* pointer) = 0;
  virtual void* allocate_host(std::int64_t bytes) = 0;  // pinned: copies from and to it never wait
  virtual void release_host(void* memory) noexcept = 0;

  // Ordered by the stream; copies from and to pageable host memory may wait.
  virtual void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  virtual void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  virtual void set_bytes(void* to, int byte, std::int64_t bytes, Stream stream) = 0;

  virtual Module load_module(std::span<const std::uint8_t> image) = 0;
  /// One that the library carries. Who runs something else than its cubin overrides this.
  virtual Module load_image(const KernelImage& image) { return load_module(image.cubin.bytes()); }
  virtual Kernel find_kernel(Module module, const char* name) = 0;  // null if there is none
  /// Clusters of so many blocks that the device holds at once; 0 if none fits.
  virtual int most_clusters(Kernel kernel, int cluster, int threads, int shared_bytes) = 0;
  /// Throws Error{invalid_argument} where the boxes break a limit of TensorBoxes.
  virtual TensorMap tensor_map(const TensorBoxes& boxes) = 0;
  // The grid may be put onto the device before the last one of the stream is done: a kernel waits
  // for that one itself (cuda/block/grid_order.cuh), before it touches memory.
  virtual void launch(const LaunchCall& call) = 0;

  // For tests and measurements.
  virtual Stream make_stream() = 0;
  virtual void release_stream(Stream stream) noexcept = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual Event make_event() = 0;
  virtual void release_event(Event event) noexcept = 0;
  virtual void record(Event event, Stream stream) = 0;
  virtual double milliseconds_between(Event begin, Event end) = 0;  // waits for `end`
  virtual void begin_capture(Stream stream) = 0;
  virtual Graph end_capture(Stream stream) = 0;
  virtual void launch_graph(Graph graph, Stream stream) = 0;
  virtual void release_graph(Graph graph) noexcept = 0;

  FoundKernels found_kernels;  // filled by entry_kernel (cuda/device/kernels.hpp)
};

/// GPUs that the CUDA runtime sees; 0 without one, without a driver, and in a build without CUDA.
int runtime_device_count();
/// Why there are none, in words: "no CUDA driver is installed"; empty if there are some.
std::string no_device_reason();
/// The calling thread's current device. One object per GPU, alive until the process ends.
Device& runtime_device();
/// The one of that number, current or not. Throws Error{invalid_argument} where there is none.
Device& runtime_device(int ordinal);
/// Makes `ordinal` the calling thread's current device.
void select_runtime_device(int ordinal);

/// What the CUDA driver knows of an address, where this process has loaded it, by whatever library:
/// no context is made, and a machine without a GPU has nothing to ask. Frees and new allocations
/// count at once: nothing is kept.
struct DriverMemory {
  enum Kind {
    unknown,  // of no allocation of CUDA: pageable memory of the host, or freed
    device,   // of GPU `ordinal`
    shared,   // managed, or pinned or registered memory of the host: both read it
  } kind = unknown;
  int ordinal = -1;
};
DriverMemory driver_memory(const void* pointer);

}  // namespace microscale::cuda
