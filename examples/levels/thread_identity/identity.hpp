// What the identity kernel writes, and the latency kernels.
#pragma once

#include <cstdint>
#include <vector>

namespace levels {

struct Place {
  unsigned tid_x, tid_y, ctaid_x, ctaid_y, ntid_x, ntid_y;
  bool operator==(const Place&) const = default;
};

struct Identity {
  Place by_ptx;   // %tid, %ctaid, %ntid
  Place by_name;  // threadIdx, blockIdx, blockDim
  unsigned col, row;
};

/// (Identity* out, int width): one thread per element of a matrix `width` wide.
const void* identity_kernel();

/// (const uint32_t* chain, int steps, uint32_t* out): one thread; out[0] = cycles, out[1] keeps the
/// result alive. `chain` is followed by those that read memory: chain[i] is the next index.
struct LatencyKernel {
  const char* name;
  const char* what;
  const void* kernel;
  std::int64_t chain_bytes;  // size of the ring to walk through; 0: none
};
std::vector<LatencyKernel> latency_kernels();

}  // namespace levels
