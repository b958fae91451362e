// A device with memory of its own and streams that do nothing until somebody waits for them, whose
// quantize kernels are the host's code: who forgets a copy, a wait or an order gets wrong bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "cuda/block/quantize_args.hpp"
#include "cuda/device/device.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda::test {

class QueueingDevice final : public Device {
 public:
  std::int64_t room = std::int64_t{1} << 40;  // bytes that allocate may still give
  int launches = 0, waits = 0, copies_to_device = 0;

  QueueingDevice() : info_{0, "Queue", 9, 0, 132, 60 << 20, std::int64_t{1} << 37} {}
  /// Allocations and streams not given back.
  std::size_t held() const { return device_.size() + host_.size() + streams_.size(); }

  const DeviceInfo& info() const override { return info_; }
  void make_current() override {}
  void* allocate(std::int64_t bytes) override {
    std::lock_guard lock(mutex_);
    if (bytes > room) throw Error(ErrorCode::out_of_memory, "no room");
    room -= bytes;
    return keep(device_, bytes);
  }
  void release(void* memory) noexcept override { drop(device_, memory); }
  void* allocate_host(std::int64_t bytes) override {
    std::lock_guard lock(mutex_);
    return keep(host_, bytes);
  }
  void release_host(void* memory) noexcept override { drop(host_, memory); }
  Memory memory_of(const void* pointer) override {
    if (computes_) return Memory::host;
    std::lock_guard lock(mutex_);
    const auto* byte = static_cast<const std::uint8_t*>(pointer);
    for (const auto& [begin, bytes] : device_)
      if (byte >= begin && byte < static_cast<std::uint8_t*>(begin) + bytes) return Memory::device;
    return Memory::host;
  }
  void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) override {
    expect(to, from);
    copy(to, from, bytes, stream);
    std::lock_guard lock(mutex_);
    ++copies_to_device;
  }
  void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) override {
    expect(from, to);
    copy(to, from, bytes, stream);
  }
  void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) override {
    copy(to, from, bytes, stream);
  }
  void set_bytes(void* to, int byte, std::int64_t bytes, Stream stream) override {
    enqueue(stream, [=] { std::memset(to, byte, static_cast<std::size_t>(bytes)); });
  }
  Module load_module(std::span<const std::uint8_t>) override { return nullptr; }
  Module load_image(const KernelImage&) override { return nullptr; }
  Kernel find_kernel(Module, const char* name) override {
    static std::mutex mutex;
    static std::set<std::string> names;  // outlives every device
    std::lock_guard lock(mutex);
    return names.insert(name).first->c_str();
  }
  TensorMap tensor_map(const TensorBoxes&) override { return {}; }
  int most_clusters(Kernel, int cluster, int, int) override {
    return info().multiprocessors / cluster;
  }
  void launch(const LaunchCall& call) override {
    QuantizeArgs args;
    ASSERT_EQ(call.args_bytes, static_cast<std::int64_t>(sizeof args));
    std::memcpy(&args, call.args, sizeof args);
    const std::string name = static_cast<const char*>(call.kernel);
    enqueue(call.stream, [=] { run(name, args); });
    std::lock_guard lock(mutex_);
    ++launches;
  }
  Stream make_stream() override {
    std::lock_guard lock(mutex_);
    auto* stream = new Queue;
    streams_.insert(stream);
    return stream;
  }
  void release_stream(Stream stream) noexcept override {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(streams_.erase(static_cast<Queue*>(stream)), 1u);
    delete static_cast<Queue*>(stream);
  }
  void synchronize(Stream stream) override {
    auto& queue = *static_cast<Queue*>(stream);
    for (const auto& work : queue) work();
    queue.clear();
    std::lock_guard lock(mutex_);
    ++waits;
  }
  Event make_event() override { return nullptr; }
  void release_event(Event) noexcept override {}
  void record(Event, Stream) override {}
  double milliseconds_between(Event, Event) override { return 0; }
  void begin_capture(Stream) override {}
  Graph end_capture(Stream) override { return nullptr; }
  void launch_graph(Graph, Stream) override {}
  void release_graph(Graph) noexcept override {}

 private:
  using Queue = std::vector<std::function<void()>>;
  using Allocations = std::map<void*, std::int64_t>;

  static void* keep(Allocations& allocations, std::int64_t bytes) {
    void* memory = ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{256});
    std::memset(memory, 0xCD, static_cast<std::size_t>(bytes));
    allocations[memory] = bytes;
    return memory;
  }
  void drop(Allocations& allocations, void* memory) noexcept {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(allocations.erase(memory), 1u);
    ::operator delete (memory, std::align_val_t{256});
  }
  void expect(const void* device, const void* host) {
    EXPECT_EQ(memory_of(device), Memory::device);
    EXPECT_EQ(memory_of(host), Memory::host);
  }
  static void enqueue(Stream stream, std::function<void()> work) {
    ASSERT_NE(stream, nullptr) << "the default stream orders unrelated workers";
    static_cast<Queue*>(stream)->push_back(std::move(work));
  }
  static void copy(void* to, const void* from, std::int64_t bytes, Stream stream) {
    enqueue(stream, [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }

  // What the kernel called `name` would write.
  static void run(const std::string& name, const QuantizeArgs& args) {
    QuantizeOptions o;
    for (const FormatInfo& format : all_formats())
      if (name.find("_" + std::string(format.name) + "_") != name.npos) o.format = format.format;
    o.input = {args.input, DType::f32, args.rows, args.cols, args.row_stride};
    if (name.find("_f16_") != name.npos) o.input.dtype = DType::f16;
    if (name.find("_bf16_") != name.npos) o.input.dtype = DType::bf16;
    o.numerics.scale_rule = static_cast<ScaleRule>(args.scale_rule);
    o.numerics.rounding = static_cast<Rounding>(args.rounding);
    o.numerics.seed = args.seed;
    o.first_index = args.first_index;
    if (args.global_scale) o.global_scale = *args.global_scale;
    const BlockShape shape{args.rows, args.cols, o.format};
    computes_ = true;
    quantize_into(o, {args.codes, static_cast<std::size_t>(shape.code_bytes())},
                  {args.scales, static_cast<std::size_t>(shape.scale_bytes())}, {.threads = 1});
    computes_ = false;
  }

  // This thread does a kernel's work, with the host's code, to which all memory is its own.
  static inline thread_local bool computes_ = false;

  DeviceInfo info_;
  std::mutex mutex_;  // guards what follows and the counters
  Allocations device_, host_;
  std::set<Queue*> streams_;
};

}  // namespace microscale::cuda::test
