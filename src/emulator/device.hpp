// The machine behind the seam of src/cuda/device/device.hpp: the CUDA operations run on it as on a
// GPU. What it finds in a kernel becomes an Error.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "cuda/device/device.hpp"
#include "microscale/emulator.hpp"

namespace microscale::emulator {

class EmulatorDevice : public cuda::Device {
 public:
  /// `major`.`minor` is the compute capability to be: 9.0, 10.x or 12.x. `multiprocessors`: what
  /// grids are sized for; 0: as many as the host has cores.
  EmulatorDevice(int major, int minor, LaunchOptions options = {}, int multiprocessors = 0);
  ~EmulatorDevice() override;

  const cuda::DeviceInfo& info() const override { return info_; }
  void make_current() override {}
  void* allocate(std::int64_t bytes) override;
  void release(void* memory) noexcept override;
  cuda::Memory memory_of(const void* pointer) override;
  void* allocate_host(std::int64_t bytes) override;
  void release_host(void* memory) noexcept override;
  void copy_to_device(void* to, const void* from, std::int64_t bytes, cuda::Stream) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes, cuda::Stream) override;
  void copy_on_device(void* to, const void* from, std::int64_t bytes, cuda::Stream) override;
  void set_bytes(void* to, int byte, std::int64_t bytes, cuda::Stream) override;
  /// `image`: PTX.
  cuda::Module load_module(std::span<const std::uint8_t> image) override;
  /// Its PTX is unpacked and read when a kernel of it is looked for.
  cuda::Module load_image(const cuda::KernelImage& image) override;
  cuda::Kernel find_kernel(cuda::Module module, const char* name) override;
  /// Done when it returns. Throws Error{check_failed} for the first finding.
  int most_clusters(cuda::Kernel kernel, int cluster, int threads, int shared_bytes) override;
  cuda::TensorMap tensor_map(const cuda::TensorBoxes& boxes) override;
  void launch(const cuda::LaunchCall& call) override;

  // There is one order of things: streams and events are names only. Graphs are refused.
  cuda::Stream make_stream() override { return nullptr; }
  void release_stream(cuda::Stream) noexcept override {}
  void synchronize(cuda::Stream) override {}
  cuda::Event make_event() override;
  void release_event(cuda::Event event) noexcept override;
  void record(cuda::Event event, cuda::Stream) override;
  double milliseconds_between(cuda::Event begin, cuda::Event end) override;
  void begin_capture(cuda::Stream) override;
  cuda::Graph end_capture(cuda::Stream) override;
  void launch_graph(cuda::Graph, cuda::Stream) override;
  void release_graph(cuda::Graph) noexcept override {}

  /// For tests: how a kernel is launched from now on, what the last launch reported, and the names
  /// of all kernels that were launched.
  LaunchOptions options;
  LaunchReport last_report;
  std::set<std::string> executed;

 private:
  struct State;
  cuda::DeviceInfo info_;
  std::unique_ptr<State> state_;
};

}  // namespace microscale::emulator
