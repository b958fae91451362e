// Where and with how many threads an operation runs.
//
// Operations may be called from several threads at once; on the CPU they share the threads of one
// pool, which serves one call after the other. A child of fork() has a pool of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace microscale {

enum class Backend : std::uint8_t {
  automatic,  ///< the first of available_backends() that supports the call
  reference,  ///< slow and obviously right: the oracle
  avx2,
  avx512,
  amx,   ///< avx512 and, for matrix products and attention, AMX tiles of BF16
  cuda,  ///< on request only: operations then take device memory (microscale/cuda.hpp)
};

struct Context {
  Backend backend = Backend::automatic;
  int threads = 0;  ///< 1 or more; 0: one per core this process may run on
  void* stream =
      nullptr;  ///< cuda: the cudaStream_t that orders the work; null: the default stream
  std::span<std::uint8_t> workspace{};  ///< cuda: device memory for operations that ask for some
                                        ///< (..._workspace_bytes), at a multiple of 256. It may
                                        ///< hold anything; it is in use until the call's work is
                                        ///< done: calls at work at once that share it may give
                                        ///< wrong results, or never end
};

/// Backends this machine can run, fastest first; `reference` is always last.
/// MICROSCALE_BACKEND=name in the environment narrows the list to that one; emulator-sm90,
/// emulator-sm100 or emulator-sm120 leaves it, and is the GPU of backend cuda. Throws Error for a
/// name of nobody, or a backend that this processor has not.
std::vector<Backend> available_backends();
std::string_view to_string(Backend backend);

}  // namespace microscale
