#include "gpu_timing.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "clock.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/quantize/args.hpp"
#include "cuda/quantize/choose.hpp"
#include "formats/half.hpp"

namespace microscale::cuda {
namespace {

// Median seconds of one copy, straight into a stream: a copy in a graph may be given to a copy
// engine, which is slower than the memory.
double copy_seconds(Device& device, const DeviceBytes& to, const DeviceBytes& from) {
  Stream stream = device.make_stream();
  Event begin = device.make_event(), end = device.make_event();
  std::vector<double> samples;
  for (int sample = 0; sample < 12; ++sample) {
    device.record(begin, stream);
    for (int i = 0; i < 8; ++i) device.copy_on_device(to.data(), from.data(), from.size(), stream);
    device.record(end, stream);
    const double seconds = device.milliseconds_between(begin, end) / 8e3;
    if (sample >= 2) samples.push_back(seconds);
  }
  device.release_event(begin);
  device.release_event(end);
  device.release_stream(stream);
  std::nth_element(samples.begin(), samples.begin() + 5, samples.end());
  return samples[5];
}

}  // namespace

double median_seconds(Device& device, int calls, const std::function<void(int, Stream)>& call) {
  Stream stream = device.make_stream();
  call(0, stream);
  device.synchronize(stream);
  calls = (15 + calls) / calls * calls;  // so that starting the graph is little of the time
  device.begin_capture(stream);
  for (int i = 0; i < calls; ++i) call(i, stream);
  Graph graph = device.end_capture(stream);
  Event begin = device.make_event(), end = device.make_event();
  std::vector<double> samples;
  for (int sample = 0; sample < 13; ++sample) {
    device.record(begin, stream);
    device.launch_graph(graph, stream);
    device.record(end, stream);
    const double seconds = device.milliseconds_between(begin, end) / 1e3 / calls;
    if (sample >= 2) samples.push_back(seconds);
  }
  device.release_event(begin);
  device.release_event(end);
  device.release_graph(graph);
  device.release_stream(stream);
  std::nth_element(samples.begin(),
                   samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2),
                   samples.end());
  return samples[samples.size() / 2];
}

double host_seconds(Device& device, const std::function<void(int, Stream)>& call) {
  Stream stream = device.make_stream();
  call(0, stream);
  device.synchronize(stream);
  constexpr int calls = 64;
  std::vector<double> samples;
  for (int sample = 0; sample < 15; ++sample) {
    const double seconds = bench::seconds_of([&] {
      for (int i = 0; i < calls; ++i) call(i, stream);
    });
    device.synchronize(stream);
    if (sample >= 4) samples.push_back(seconds / calls);
  }
  device.release_stream(stream);
  return bench::median(samples);
}

double launch_seconds(Device& device) {
  const DeviceBytes input(device, 16), result(device, 16);
  AbsMaxArgs args{};
  args.input = input.data();
  args.rows = 1;
  args.cols = args.row_stride = 8;
  args.amax_bits = reinterpret_cast<std::uint32_t*>(result.data());
  const Kernel kernel = entry_kernel(device, abs_max_kernel(DType::bf16), "bench");
  return host_seconds(device, [&](int, Stream stream) {
    device.launch({.kernel = kernel,
                   .grid = {1, 1, 1},
                   .threads = threads_per_block,
                   .stream = stream,
                   .args = &args,
                   .args_bytes = sizeof args});
  });
}

DeviceBytes random_matrix(Device& device, DType dtype, std::int64_t elements, float spread) {
  const std::int64_t bytes = elements * size_of(dtype), seed_elements = 1 << 19;
  std::vector<std::uint8_t> seed(static_cast<std::size_t>(seed_elements * size_of(dtype)));
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0f, spread);
  for (std::int64_t i = 0; i < seed_elements; ++i) {
    const float value = normal(generator);
    std::uint32_t stored = std::bit_cast<std::uint32_t>(value);
    if (dtype == DType::f16) stored = float_to_f16(value);
    if (dtype == DType::bf16) stored = float_to_bf16(value);
    std::memcpy(seed.data() + i * size_of(dtype), &stored,
                static_cast<std::size_t>(size_of(dtype)));
  }
  DeviceBytes memory(device, bytes);
  const auto seed_bytes = static_cast<std::int64_t>(seed.size());
  for (std::int64_t at = 0; at < bytes; at += seed_bytes)
    device.copy_to_device(memory.data() + at, seed.data(), std::min(seed_bytes, bytes - at),
                          nullptr);
  device.synchronize(nullptr);
  return memory;
}

double empty_node_seconds(Device& device) {
  const DeviceBytes memory(device, 4);
  return median_seconds(device, 64,
                        [&](int, Stream stream) { device.set_bytes(memory.data(), 0, 4, stream); });
}

double copy_bytes_per_second(Device& device) {
  const std::int64_t bytes = std::int64_t{512} << 20;
  const DeviceBytes from(device, bytes), to(device, bytes);
  return 2.0 * static_cast<double>(bytes) / copy_seconds(device, to, from);
}

void set_time(Timing& row, double seconds, double copy_rate) {
  row.microseconds = seconds * 1e6;
  row.share = static_cast<double>(row.bytes) / seconds / copy_rate;
}

Timings measure(Device& device, const Selection& selection, const TimingCallback& callback) {
  Timings timings;
  timings.copy_bytes_per_second = copy_bytes_per_second(device);
  timings.empty_node_microseconds = 1e6 * empty_node_seconds(device);
  measure_rows(device, selection, timings, callback);
  if (selection.grouped) measure_grouped(device, selection, timings, callback);
  if (selection.fused) measure_fused(device, selection, timings, callback);
  return timings;
}

}  // namespace microscale::cuda
