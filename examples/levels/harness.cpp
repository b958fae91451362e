#include "harness.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace levels {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

DeviceArray::DeviceArray(std::int64_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "allocating device memory");
  data_ = static_cast<std::uint8_t*>(memory);
}

void DeviceArray::fill_with(const std::vector<std::uint8_t>& pattern) const {
  const auto first = std::min(bytes_, static_cast<std::int64_t>(pattern.size()));
  check(cudaMemcpy(data_, pattern.data(), static_cast<std::size_t>(first), cudaMemcpyHostToDevice),
        "copying to the device");
  for (std::int64_t at = first; at < bytes_; at += first)
    check(cudaMemcpy(data_ + at, data_, static_cast<std::size_t>(std::min(first, bytes_ - at)),
                     cudaMemcpyDeviceToDevice),
          "copying on the device");
}

void DeviceArray::set(int byte) const {
  check(cudaMemset(data_, byte, static_cast<std::size_t>(bytes_)), "setting device memory");
}

std::vector<std::uint8_t> DeviceArray::to_host() const {
  std::vector<std::uint8_t> host(static_cast<std::size_t>(bytes_));
  check(cudaMemcpy(host.data(), data_, host.size(), cudaMemcpyDeviceToHost), "copying to the host");
  return host;
}

namespace {

double median(std::vector<double> samples) {
  std::nth_element(samples.begin(),
                   samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2),
                   samples.end());
  return samples[samples.size() / 2];
}

// Median microseconds of what `work` puts into the stream, by events; two unmeasured turns first.
double timed(cudaStream_t stream, const std::function<void()>& work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "making an event");
  check(cudaEventCreate(&end), "making an event");
  std::vector<double> samples;
  for (int turn = 0; turn < 13; ++turn) {
    check(cudaEventRecord(begin, stream), "recording an event");
    work();
    check(cudaEventRecord(end, stream), "recording an event");
    check(cudaEventSynchronize(end), "running");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "timing");
    if (turn >= 2) samples.push_back(milliseconds * 1e3);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return median(samples);
}

double measure_copy() {
  const std::int64_t bytes = std::int64_t{512} << 20;
  const DeviceArray from(bytes), to(bytes);
  from.set(0x3C);
  constexpr int copies = 8;
  const double us = timed(nullptr, [&] {
    for (int i = 0; i < copies; ++i)
      check(cudaMemcpyAsync(to.data(), from.data(), static_cast<std::size_t>(bytes),
                            cudaMemcpyDeviceToDevice, nullptr),
            "copying");
  });
  return 2.0 * static_cast<double>(bytes) * copies / (us * 1e-6);
}

}  // namespace

Bench::Bench(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    profiling_ |= std::string_view(argv[i]) == "--profile";
    checking_only_ |= std::string_view(argv[i]) == "--check";
  }
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "looking for a GPU");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, ordinal), "reading the GPU's properties");
  major_ = properties.major;
  if (profiling_ || checking_only_) return;
  copy_ = measure_copy();
  std::printf("%s, %d multiprocessors, %d MB of L2; copy: %.2f TB/s read and written\n",
              properties.name, properties.multiProcessorCount, properties.l2CacheSize >> 20,
              copy_ / 1e12);
}

void Bench::table(const char* title) const {
  if (profiling_) return;
  std::printf("\n%s\n\n| level | us | TB/s | of copy | occupancy |\n|---|---|---|---|---|\n",
              title);
}

void Bench::row(const Case& c) const {
  if (profiling_) {
    c.run(0, nullptr);
    check(cudaDeviceSynchronize(), c.name.c_str());
    std::printf("launched\t%d\t%lld\t%s\n", c.launches, static_cast<long long>(c.elements),
                c.name.c_str());
    return;
  }
  const double us = microseconds(c), rate = static_cast<double>(c.bytes) / us / 1e6;
  std::printf("| %s | %.1f | %.2f | %.2f | ", c.name.c_str(), us, rate, rate * 1e12 / copy_);
  if (c.occupancy > 0)
    std::printf("%.0f %% |\n", 100 * c.occupancy);
  else
    std::printf(" |\n");
}

void Bench::row_not_measured(const std::string& name) const {
  if (!profiling_)
    std::printf("| %s | not measured: this GPU has no such instruction | | | |\n", name.c_str());
}

double Bench::microseconds(const Case& c) const {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  c.run(0, stream);  // loads the kernel
  check(cudaStreamSynchronize(stream), c.name.c_str());
  const int runs = std::max(c.sets, 4);
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
  for (int i = 0; i < runs; ++i) c.run(i % c.sets, stream);
  cudaGraph_t graph;
  check(cudaStreamEndCapture(stream, &graph), "capturing");
  cudaGraphExec_t executable;
  check(cudaGraphInstantiate(&executable, graph, 0), "making a graph");
  const double us =
      timed(stream, [&] { check(cudaGraphLaunch(executable, stream), c.name.c_str()); });
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return us / runs;
}

int sets_past_cache(std::int64_t bytes) {
  constexpr std::int64_t past_the_cache = std::int64_t{256} << 20;
  return static_cast<int>(std::clamp<std::int64_t>(past_the_cache / bytes + 1, 2, 64));
}

double occupancy(const void* kernel, int threads, int shared_bytes) {
  int blocks = 0, ordinal = 0, most = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads,
                                                      static_cast<std::size_t>(shared_bytes)),
        "asking for occupancy");
  check(cudaGetDevice(&ordinal), "asking for the device");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxThreadsPerMultiProcessor, ordinal),
        "asking the device");
  return static_cast<double>(blocks * threads) / most;
}

void launch(const Level& level, const Args& args, cudaStream_t stream) {
  Args copy = args;
  void* parameters[] = {&copy};
  const Grid grid = level.grid(args.rows, args.cols);
  check(cudaLaunchKernel(level.kernel,
                         {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), 1},
                         {static_cast<unsigned>(level.threads), 1, 1}, parameters, 0, stream),
        level.name.c_str());
}

}  // namespace levels
