// What every ladder needs around its levels: device memory, one way to time, and one table.
//
// With --profile each case is launched once and named on standard output, in order; nothing else is
// launched. The script `profile` runs the program that way under Nsight Compute. With --check a
// program stops after its comparisons, which is what compute-sanitizer shall see.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "level.hpp"

namespace levels {

/// Throws std::runtime_error unless `status` is success.
void check(cudaError_t status, const char* what);

class DeviceArray {
 public:
  explicit DeviceArray(std::int64_t bytes);
  DeviceArray(DeviceArray&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
  }
  ~DeviceArray() { cudaFree(data_); }

  std::uint8_t* data() const { return data_; }
  std::int64_t size() const { return bytes_; }
  void fill_with(const std::vector<std::uint8_t>& pattern) const;  // repeated to the end
  void set(int byte) const;
  std::vector<std::uint8_t> to_host() const;

 private:
  std::uint8_t* data_ = nullptr;
  std::int64_t bytes_;
};

/// Something to time. `run(set, stream)` launches it on buffer set `set`.
struct Case {
  std::string name;
  std::int64_t bytes;  // effective: input read once, output written once
  std::int64_t elements;
  double occupancy;  // warps a multiprocessor can hold of this kernel / of any; 0: not one kernel
  int sets;          // buffers to rotate through
  std::function<void(int, cudaStream_t)> run;
  int launches = 1;  // kernels of one run
};

class Bench {
 public:
  /// Reads --profile and --check; throws std::runtime_error where there is no GPU.
  Bench(int argc, char** argv);

  bool profiling() const { return profiling_; }
  bool checking_only() const { return checking_only_; }
  bool blackwell() const { return major_ >= 10; }
  /// Prints a heading and, above the first row, the columns.
  void table(const char* title) const;
  void row(const Case& c) const;
  void row_not_measured(const std::string& name) const;
  /// Median of 11 graphs of at least `sets` runs each.
  double microseconds(const Case& c) const;
  double copy_bytes_per_second() const { return copy_; }

 private:
  bool profiling_ = false, checking_only_ = false;
  int major_ = 0;
  double copy_ = 0;
};

/// Sets of `bytes` each that together are well past the L2.
int sets_past_cache(std::int64_t bytes);
double occupancy(const void* kernel, int threads, int shared_bytes = 0);
void launch(const Level& level, const Args& args, cudaStream_t stream);

}  // namespace levels
