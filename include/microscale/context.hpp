// Where an operation runs, and with how many threads.
//
// Several threads may call operations at once. On the CPU they share one pool of threads, which
// serves one call after the other. A child of fork() gets a pool of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace microscale {

enum class Backend : std::uint8_t {
  automatic,  ///< cuda if the operands are in device memory, otherwise the first of
              ///< available_backends() that supports the call
  reference,  ///< slow and obviously right: the oracle
  avx2,
  avx512,
  amx,   ///< avx512 and, for matrix products and attention, AMX tiles of BF16
  cuda,  ///< the current GPU; operands are in device memory (microscale/cuda.hpp)
};

struct Context {
  Backend backend = Backend::automatic;
  int threads = 0;  ///< 1 or more; 0: one per core this process may run on
  void* stream =
      nullptr;  ///< cuda: the cudaStream_t that orders the work; null: the default stream
  /// cuda: device memory for the operations that need some (..._workspace_bytes), at a multiple of
  /// 256. What it holds does not matter. A call uses it until its work is done; calls that run at
  /// the same time must not share it: their results would be wrong, or they would never end.
  std::span<std::uint8_t> workspace{};
};

/// The backends of the CPU that this machine can run, fastest first; `reference` is always last.
/// MICROSCALE_BACKEND=name in the environment narrows the list to that one. emulator-sm90,
/// emulator-sm100 and emulator-sm120 leave the list as it is and stand in for the GPU of backend
/// cuda. Throws Error where no backend has that name, or where this processor lacks it.
std::vector<Backend> available_backends();
std::string_view to_string(Backend backend);

}  // namespace microscale
