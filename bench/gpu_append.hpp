// append_kv on the GPU at hand through the public interface, in graphs (gpu_timing.hpp).
#pragma once

#include "cpu_attention.hpp"
#include "cuda/device/device.hpp"

namespace microscale::cuda {

/// Sequences of c.length new tokens in BF16, 8 kv heads, d = 128, into pages in random order.
/// Whether the last page has the bytes of a host's append_kv.
bool append_agrees(Device& device, const bench::AttentionCase& c);

/// The same timed: fills in the time, and as error 0 where it agrees, else 2.
void measure_append(Device& device, const bench::AttentionCase& c, bench::Result& row);

}  // namespace microscale::cuda
