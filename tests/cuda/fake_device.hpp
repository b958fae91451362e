// A device that records what it is asked to do. Its memory is the host's; kernels are never run.
#pragma once

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/device/kernel_images.hpp"
#include "cuda/device/kernels.hpp"

namespace microscale::cuda::test {

class FakeDevice final : public Device {
 public:
  struct Seen {
    std::string name;
    LaunchCall call;
    std::vector<std::uint8_t> args;
    template <class Args>
    Args as() const {
      Args value;
      std::memcpy(&value, args.data(), sizeof value);
      return value;
    }
  };
  std::vector<Seen> launches;
  std::vector<std::pair<const void*, std::int64_t>> zeroed;
  std::vector<TensorBoxes> boxes;   // asked for
  const void* host_only = nullptr;  // a pointer to be called host memory

  FakeDevice(int major, int minor)
      : info_{0, "Fake", major, minor, 132, 60 << 20, std::int64_t{1} << 37} {}
  ~FakeDevice() override { forget_kernels(*this); }  // another one may be made at its address
  const DeviceInfo& info() const override { return info_; }
  void make_current() override {}
  void* allocate(std::int64_t bytes) override {
    return ::operator new(static_cast<std::size_t>(bytes));
  }
  void release(void* memory) noexcept override { ::operator delete(memory); }
  Memory memory_of(const void* pointer) override {
    return pointer == host_only ? Memory::host : Memory::device;
  }
  void* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  void release_host(void* memory) noexcept override { release(memory); }
  void copy_to_device(void*, const void*, std::int64_t, Stream) override {}
  void copy_to_host(void*, const void*, std::int64_t, Stream) override {}
  void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void set_bytes(void* to, int, std::int64_t bytes, Stream) override {
    zeroed.emplace_back(to, bytes);
  }
  Module load_module(std::span<const std::uint8_t>) override { return nullptr; }
  Module load_image(const KernelImage& image) override { return const_cast<KernelImage*>(&image); }
  // The name itself, if that very image defines it.
  Kernel find_kernel(Module module, const char* name) override {
    ++found;
    for (std::string_view each : names_in(*static_cast<const KernelImage*>(module)))
      if (each == name) return names().insert(name).first->c_str();
    return nullptr;
  }
  // Its number among those asked for.
  TensorMap tensor_map(const TensorBoxes& asked) override {
    TensorMap map{};
    map.bytes[0] = static_cast<std::uint8_t>(boxes.size());
    boxes.push_back(asked);
    return map;
  }
  int most_clusters(Kernel, int cluster, int, int) override {
    return info().multiprocessors / cluster;
  }
  void launch(const LaunchCall& call) override {
    const auto* bytes = static_cast<const std::uint8_t*>(call.args);
    launches.push_back(
        {static_cast<const char*>(call.kernel), call, {bytes, bytes + call.args_bytes}});
  }
  Stream make_stream() override { return nullptr; }
  void release_stream(Stream) noexcept override {}
  void synchronize(Stream) override { ++waits; }
  Event make_event() override { return nullptr; }
  void release_event(Event) noexcept override {}
  void record(Event, Stream) override {}
  double milliseconds_between(Event, Event) override { return 0; }
  void begin_capture(Stream) override {}
  Graph end_capture(Stream) override { return nullptr; }
  void launch_graph(Graph, Stream) override {}
  void release_graph(Graph) noexcept override {}
  int waits = 0;
  int found = 0;  // kernels that were asked for

 private:
  // Kernels outlive a device: load_kernel() remembers them by its address, which may be used again.
  static std::set<std::string>& names() {
    static std::set<std::string> all;
    return all;
  }
  DeviceInfo info_;
};

/// Memory aligned as device memory is.
struct alignas(256) Aligned {
  std::uint8_t bytes[1 << 16];
};

}  // namespace microscale::cuda::test
