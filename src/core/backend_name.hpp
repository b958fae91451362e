// MICROSCALE_BACKEND, read and checked in one place.
#pragma once

#include <array>
#include <string_view>

namespace microscale {

/// A GPU that the emulator plays behind backend cuda.
struct EmulatedGpu {
  std::string_view name;
  int major;  // compute capability
};
inline constexpr std::array emulated_gpus{EmulatedGpu{"emulator-sm90", 9},
                                          EmulatedGpu{"emulator-sm100", 10},
                                          EmulatedGpu{"emulator-sm120", 12}};

/// The emulated GPU of that name, or null.
const EmulatedGpu* find_emulated_gpu(std::string_view name);

/// What MICROSCALE_BACKEND says, as long as the environment is left alone; empty where it is unset.
/// Throws Error{invalid_argument} for a name that no backend and no emulated GPU has.
std::string_view backend_of_environment();

}  // namespace microscale
