// The yardstick: what this machine moves in the same run when nothing is computed.
#pragma once

#include <cstddef>

namespace microscale::bench {

/// Reads `read_bytes` of input and writes `write_bytes` of output in even proportion, on `threads`
/// threads (0: all): vector loads with prefetch, streaming stores, no arithmetic but what keeps the
/// loads alive. This is the floor of any kernel with that mix. Buffers are 64-byte aligned.
void move_bytes(const void* input, std::size_t read_bytes, void* output, std::size_t write_bytes,
                int threads);

/// memcpy of `bytes`, cut over the threads.
void copy_bytes(const void* input, void* output, std::size_t bytes, int threads);

}  // namespace microscale::bench
