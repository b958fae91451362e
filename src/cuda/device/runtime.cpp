// The CUDA runtime behind the seam: static, it looks for the driver when first used.
#if defined(MICROSCALE_HAS_CUDA)

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/device/environment.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

// Throws after taking the error out of the runtime.
[[noreturn]] void fail(cudaError_t status, const std::string& what) {
  cudaGetLastError();
  const std::string cause =
      fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation)
    throw Error(
        ErrorCode::out_of_memory,
        fmt::format("cuda: {} failed: {}; free device memory or work on fewer rows", what, cause));
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("cuda: {} failed: {}; this build has kernels for sm_90a, sm_100f and sm_120f",
                    what, cause));
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice)
    throw Error(ErrorCode::unsupported,
                fmt::format("cuda: {} failed: {}; use a machine with an NVIDIA "
                            "GPU and its driver, or another backend",
                            what, cause));
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format(
          "cuda: {} failed: {}; check that the pointers and the stream belong to the current "
          "device, and that no earlier kernel of the process failed",
          what, cause));
}

// Throws for anything but success; `what` is put into words then only.
template <class... Values>
void check(cudaError_t status, fmt::format_string<Values...> what, Values&&... values) {
  if (status != cudaSuccess) fail(status, fmt::format(what, std::forward<Values>(values)...));
}

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(Event event) { return static_cast<cudaEvent_t>(event); }
std::size_t size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

class RuntimeDevice final : public Device {
  // Kernel; blocks of a cluster, threads, bytes of shared memory: how many clusters fit.
  using Clusters = std::map<std::pair<Kernel, std::array<std::int64_t, 3>>, int>;

 public:
  explicit RuntimeDevice(int ordinal) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, ordinal), "reading GPU {}'s properties", ordinal);
    info_ = {ordinal,
             properties.name,
             properties.major,
             properties.minor,
             properties.multiProcessorCount,
             properties.l2CacheSize,
             static_cast<std::int64_t>(properties.totalGlobalMem)};
  }
  const DeviceInfo& info() const override { return info_; }

  void make_current() override {
    check(cudaSetDevice(info_.ordinal), "selecting GPU {}", info_.ordinal);
  }

  void* allocate(std::int64_t bytes) override {
    void* memory = nullptr;
    check(cudaMalloc(&memory, size(std::max<std::int64_t>(bytes, 1))), "allocating {} bytes",
          bytes);
    return memory;
  }
  void release(void* memory) noexcept override { forget(cudaFree(memory)); }
  void* allocate_host(std::int64_t bytes) override {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, size(std::max<std::int64_t>(bytes, 1))),
          "pinning {} bytes of host memory", bytes);
    return memory;
  }
  void release_host(void* memory) noexcept override { forget(cudaFreeHost(memory)); }
  Memory memory_of(const void* pointer) override {
    const DriverMemory known = driver_memory(pointer);
    const bool own = known.kind == DriverMemory::device && known.ordinal == info_.ordinal;
    return own || known.kind == DriverMemory::shared ? Memory::device : Memory::host;
  }

  void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) override {
    copy(to, from, bytes, cudaMemcpyHostToDevice, stream);
  }
  void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) override {
    copy(to, from, bytes, cudaMemcpyDeviceToHost, stream);
  }
  void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) override {
    copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  void set_bytes(void* to, int byte, std::int64_t bytes, Stream stream) override {
    check(cudaMemsetAsync(to, byte, size(bytes), native(stream)), "setting {} bytes", bytes);
  }

  Module load_module(std::span<const std::uint8_t> image) override {
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "loading kernels");
    return library;
  }
  Kernel find_kernel(Module module, const char* name) override {
    cudaKernel_t kernel = nullptr;
    const cudaError_t status =
        cudaLibraryGetKernel(&kernel, static_cast<cudaLibrary_t>(module), name);
    if (status == cudaErrorSymbolNotFound || status == cudaErrorInvalidDeviceFunction) {
      cudaGetLastError();
      return nullptr;
    }
    check(status, "looking for kernel {}", name);
    return kernel;
  }
  int most_clusters(Kernel kernel, int cluster, int threads, int shared_bytes) override {
    const Clusters::key_type asked{kernel, {cluster, threads, shared_bytes}};
    const std::size_t hash = (reinterpret_cast<std::uintptr_t>(kernel) >> 4) * 31 +
                             static_cast<std::size_t>(shared_bytes) / 16 * 7 +
                             static_cast<std::size_t>(cluster);
    std::atomic<const Clusters::value_type*>& recent =
        recent_clusters_[hash % recent_clusters_.size()];
    if (const auto* known = recent.load(std::memory_order_acquire); known && known->first == asked)
      return known->second;
    std::lock_guard lock(clusters_mutex_);
    if (const auto known = clusters_.find(asked); known != clusters_.end()) {
      recent.store(&*known, std::memory_order_release);
      return known->second;
    }
    allow_shared(kernel, shared_bytes);
    int most = 0;
    if (cluster > 1) {
      cudaLaunchAttribute attribute{};
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
      attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
      cudaLaunchConfig_t config{};
      config.gridDim = {static_cast<unsigned>(cluster), 1, 1};
      config.blockDim = {static_cast<unsigned>(threads), 1, 1};
      config.dynamicSmemBytes = size(shared_bytes);
      config.attrs = &attribute;
      config.numAttrs = 1;
      check(cudaOccupancyMaxActiveClusters(&most, kernel, &config), "asking how many clusters fit");
    } else {
      check(
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&most, kernel, threads, size(shared_bytes)),
          "asking how many blocks fit");
      most *= info_.multiprocessors;
    }
    recent.store(&*clusters_.emplace(asked, most).first, std::memory_order_release);
    return most;
  }
  TensorMap tensor_map(const TensorBoxes& boxes) override {
    // Asked for by name: nothing else here needs the driver's library.
    static const auto encode = [] {
      void* found = nullptr;
      cudaDriverEntryPointQueryResult status{};
      check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                             cudaEnableDefault, &status),
            "looking for cuTensorMapEncodeTiled");
      return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
    }();
    const CUtensorMapDataType type = boxes.element_bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                     : boxes.element_bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                     : boxes.element_bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32
                                                                : CU_TENSOR_MAP_DATA_TYPE_UINT64;
    std::array<cuuint64_t, 5> sizes{}, strides{};
    std::array<cuuint32_t, 5> box{}, steps{};
    for (std::size_t i = 0; i < 5; ++i) {
      sizes[i] = static_cast<cuuint64_t>(boxes.size[i]);
      strides[i] = static_cast<cuuint64_t>(boxes.stride[i]);
      box[i] = static_cast<cuuint32_t>(boxes.box[i]);
      steps[i] = 1;
    }
    alignas(64) CUtensorMap made;
    const CUresult status =
        encode == nullptr
            ? CUDA_ERROR_NOT_SUPPORTED
            : encode(&made, type, static_cast<cuuint32_t>(boxes.rank),
                     const_cast<void*>(boxes.data), sizes.data(), &strides[1], box.data(),
                     steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                     boxes.swizzle_128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("cuda: describing a tensor for copies failed (CUDA driver error {}); "
                              "check that its memory is this device's",
                              static_cast<int>(status)));
    TensorMap map;
    static_assert(sizeof map == sizeof made);
    std::memcpy(&map, &made, sizeof map);
    return map;
  }
  void launch(const LaunchCall& call) override {
    cudaLaunchConfig_t config{};
    config.gridDim = {call.grid.x, call.grid.y, call.grid.z};
    config.blockDim = {static_cast<unsigned>(call.threads), 1, 1};
    config.dynamicSmemBytes = size(call.shared_bytes);
    config.stream = native(call.stream);
    cudaLaunchAttribute attributes[2]{};
    // Every kernel waits by itself: cuda/block/grid_order.cuh.
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = static_cast<unsigned>(call.cluster);
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    config.attrs = attributes;
    config.numAttrs = call.cluster > 1 ? 2 : 1;
    void* parameters[] = {const_cast<void*>(call.args)};
    allow_shared(call.kernel, call.shared_bytes);
    check(cudaLaunchKernelExC(&config, call.kernel, parameters), "launching a kernel");
  }

  Stream make_stream() override {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return stream;
  }
  void release_stream(Stream stream) noexcept override {
    forget(cudaStreamDestroy(native(stream)));
  }
  void synchronize(Stream stream) override {
    check(cudaStreamSynchronize(native(stream)), "waiting for a stream");
  }
  Event make_event() override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "making an event");
    return event;
  }
  void release_event(Event event) noexcept override {
    forget(cudaEventDestroy(native_event(event)));
  }
  void record(Event event, Stream stream) override {
    check(cudaEventRecord(native_event(event), native(stream)), "recording an event");
  }
  double milliseconds_between(Event begin, Event end) override {
    float milliseconds = 0;
    check(cudaEventSynchronize(native_event(end)), "waiting for an event");
    check(cudaEventElapsedTime(&milliseconds, native_event(begin), native_event(end)), "timing");
    return milliseconds;
  }
  void begin_capture(Stream stream) override {
    check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal),
          "starting a capture");
  }
  Graph end_capture(Stream stream) override {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(native(stream), &graph), "ending a capture");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
    forget(cudaGraphDestroy(graph));
    check(status, "instantiating a graph");
    return executable;
  }
  void launch_graph(Graph graph, Stream stream) override {
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), native(stream)),
          "launching a graph");
  }
  void release_graph(Graph graph) noexcept override {
    forget(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
  }

 private:
  static void forget(cudaError_t status) noexcept {
    if (status != cudaSuccess) cudaGetLastError();
  }
  // Never less than before: another thread may be about to launch with that.
  void allow_shared(Kernel kernel, int bytes) {
    if (bytes <= (48 << 10)) return;  // more only on request
    std::lock_guard lock(shared_mutex_);
    const auto [at, added] = shared_bytes_.try_emplace(kernel, 0);
    if (bytes <= at->second) return;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "asking for {} bytes of shared memory", bytes);
    at->second = bytes;
  }
  static void copy(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind,
                   Stream stream) {
    check(cudaMemcpyAsync(to, from, size(bytes), kind, native(stream)), "copying {} bytes", bytes);
  }
  DeviceInfo info_;
  std::mutex shared_mutex_;
  std::map<Kernel, int> shared_bytes_;
  std::mutex clusters_mutex_;
  Clusters clusters_;  // its elements stay where they are, and are pointed to without the lock
  std::array<std::atomic<const Clusters::value_type*>, 1024> recent_clusters_{};
};

struct Devices {
  int count = 0;
  std::string reason;
  std::mutex mutex;
  std::vector<std::unique_ptr<RuntimeDevice>> devices;

  Devices() {
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
      count = 0;
      cudaGetLastError();
      reason = status == cudaErrorInsufficientDriver
                   ? "no CUDA driver is installed, or one older than this build needs"
                   : cudaGetErrorString(status);
    } else if (count == 0) {
      reason = "no CUDA-capable GPU is visible";
    }
    devices.resize(static_cast<std::size_t>(count));
  }
};

Devices& all_devices() {
  static Devices devices;
  return devices;
}

void require_device() {
  if (all_devices().count == 0)
    throw Error(ErrorCode::unsupported,
                "cuda: no GPU to run on: " + all_devices().reason +
                    "; use a machine with an NVIDIA GPU, or another backend");
}

void require_ordinal(int ordinal) {
  require_device();
  if (ordinal < 0 || ordinal >= all_devices().count)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cuda: there is no GPU {} of {}, counted from 0", ordinal,
                            all_devices().count));
}

}  // namespace

int runtime_device_count() { return device_of_environment() ? 1 : all_devices().count; }
std::string no_device_reason() { return device_of_environment() ? "" : all_devices().reason; }

Device& runtime_device() {
  if (Device* emulated = device_of_environment()) return *emulated;
  require_device();
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "asking for the current device");
  return runtime_device(ordinal);
}

Device& runtime_device(int ordinal) {
  if (Device* emulated = device_of_environment(); emulated && ordinal == 0) return *emulated;
  require_ordinal(ordinal);
  Devices& all = all_devices();
  std::lock_guard lock(all.mutex);
  auto& device = all.devices.at(static_cast<std::size_t>(ordinal));
  if (!device) device = std::make_unique<RuntimeDevice>(ordinal);
  return *device;
}

void select_runtime_device(int ordinal) {
  if (device_of_environment() && ordinal == 0) return;
  require_ordinal(ordinal);
  check(cudaSetDevice(ordinal), "selecting GPU {}", ordinal);
}

bool is_capturing(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (device_of_environment()) return false;
  require_device();
  check(cudaStreamIsCapturing(native(stream), &status), "asking whether a stream is captured");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace microscale::cuda

#endif
