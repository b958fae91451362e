// Where memory lies, and which backend a call with it takes.
//
// Every view says it with a field `memory`; pointers and spans beside a view lie where the view
// does. All operands of one call lie in the same memory:
//
//   Backend::automatic              host memory: the fastest CPU backend; device memory: cuda
//   Backend::cuda                   device memory, else Error{invalid_argument}
//   reference, avx2, avx512, amx    host memory, else Error{invalid_argument}
//
// So a pointer to a GPU's memory is never read by the CPU, nor the reverse. What a view says is
// also checked, on either side, where this process has loaded the CUDA driver and it knows the
// pointer.
#pragma once

#include <cstdint>

namespace microscale {

enum class Memory : std::uint8_t {
  host,    ///< the CPU reads and writes it
  device,  ///< of the calling thread's current GPU, or of the emulated one
};

/// `view`, of data in device memory: `on_device(TensorView{address, DType::bf16, rows, cols,
/// cols})`.
template <class View>
constexpr View on_device(View view) {
  view.memory = Memory::device;
  return view;
}

}  // namespace microscale
