// How long operations take on the GPU at hand, beside the copy bandwidth of the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/device/device.hpp"
#include "device_bytes.hpp"
#include "microscale/format.hpp"

namespace microscale::cuda {

struct Timing {
  std::string what{};
  std::string kernel{};  // the one that takes the time
  std::int64_t bytes =
      0;  // effective: input read once (twice where said), codes and scales written once
  double must = 0, stretch = 0;  // shares of the copy bandwidth to reach; 0: none was set
  double must_microseconds = 0;  // small matrices, instead
  double microseconds = 0;       // median
  double share = 0;              // of the copy bandwidth
  std::string problem{};         // why it was not measured
};

struct Timings {
  double copy_bytes_per_second = 0;    // read and written, 512 MiB to 512 MiB
  double empty_node_microseconds = 0;  // a node of a graph that does next to nothing
  std::vector<Timing> rows;
};

/// Which cases are timed.
struct Selection {
  bool rows = true, columns = true, grouped = true, fused = true;
  bool wanted_only = false;  // those with a share or time to reach, and what they are compared with
  std::string filter{};      // those with this in their name
  bool takes(const Timing& row) const { return row.what.find(filter) != std::string::npos; }
};

/// Called after each case, with all so far; false: enough.
using TimingCallback = std::function<bool(const Timings&)>;

/// Times every selected case.
Timings measure(Device& device, const Selection& selection, const TimingCallback& callback = {});

/// What measure() is made of: each adds rows to `timings`, whose copy bandwidth is known.
void measure_rows(Device& device, const Selection& selection, Timings& timings,
                  const TimingCallback& callback);
void measure_grouped(Device& device, const Selection& selection, Timings& timings,
                     const TimingCallback& callback);
void measure_fused(Device& device, const Selection& selection, Timings& timings,
                   const TimingCallback& callback);

/// Copy bandwidth alone.
double copy_bytes_per_second(Device& device);

/// Seconds that a node of a graph takes which does next to nothing: sets four bytes.
double empty_node_seconds(Device& device);

/// Median seconds of one call: graphs of `calls` calls each, or a multiple, 16 at least, timed by
/// events.
double median_seconds(Device& device, int calls, const std::function<void(int, Stream)>& call);

/// Median seconds that a call takes the calling thread, eager, of 64 in a row that no one waits
/// for: few enough that the device's queue of launches never fills.
double host_seconds(Device& device, const std::function<void(int, Stream)>& call);

/// The same of a launch and nothing else: a kernel already found, of one block.
double launch_seconds(Device& device);

/// A bell curve in any type: 1 or 2 MiB made on the host, repeated on the device.
DeviceBytes random_matrix(Device& device, DType dtype, std::int64_t elements, float spread = 0.02f);

/// Fills in microseconds and share.
void set_time(Timing& row, double seconds, double copy_bytes_per_second);

}  // namespace microscale::cuda
