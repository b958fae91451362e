// Launches whose memory traffic a profiler counts on a GPU and the emulator counts here: PTX of
// tests/, small grids. `gpu_check counters` runs them on a GPU, tests/emulator/counters_test.cpp on
// the emulator.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/device/device.hpp"
#include "device_bytes.hpp"

namespace microscale::testing {

struct CounterCase {
  const char* name;
  const char* file;  ///< below tests/
  const char* kernel;
  cuda::Grid grid;
  int threads;
  std::int64_t rows, cols, input_bytes, output_bytes;
};

inline constexpr std::array counter_cases{
    CounterCase{"transpose, naive",
                "tools/transpose.ptx",
                "_ZN6levels12_GLOBAL__N_15naiveENS_4ArgsE",
                {3, 4, 1},
                1024,
                128,
                96,
                4 * 128 * 96,
                4 * 128 * 96},
    CounterCase{"transpose, tiled, 32",
                "tools/transpose.ptx",
                "_ZN6levels12_GLOBAL__N_15tiledILi32ELi1024EEEvNS_4ArgsE",
                {3, 4, 1},
                1024,
                128,
                96,
                4 * 128 * 96,
                4 * 128 * 96},
    CounterCase{"transpose, tiled, 33",
                "tools/transpose.ptx",
                "_ZN6levels12_GLOBAL__N_15tiledILi33ELi1024EEEvNS_4ArgsE",
                {3, 4, 1},
                1024,
                128,
                96,
                4 * 128 * 96,
                4 * 128 * 96},
    CounterCase{"MXFP4, thread a block",
                "golden/counters/quantizer_levels.ptx",
                "thread_per_block",
                {8, 1, 1},
                256,
                64,
                1024,
                2 << 16,
                1 << 15},
    CounterCase{"MXFP4, warp a block",
                "golden/counters/quantizer_levels.ptx",
                "warp_per_block",
                {256, 1, 1},
                256,
                64,
                1024,
                2 << 16,
                1 << 15},
    CounterCase{"MXFP4, four lanes",
                "golden/counters/quantizer_levels.ptx",
                "four_lanes",
                {32, 1, 1},
                256,
                64,
                1024,
                2 << 16,
                1 << 15},
    CounterCase{"matrix product",
                "golden/counters/matrix_product.ptx",
                "matrix_product",
                {2, 2, 1},
                128,
                128,
                64,
                2 * 128 * 64,
                4 * 128 * 128}};

/// The kernels' one parameter (levels::Args; matrix_product.cu gives the last two pointers other
/// meanings).
struct CounterArgs {
  const void* input;
  std::int64_t rows, cols;
  void* output;
  void* second;  ///< scales, or B
  float unused;
};

/// Runs it once. `tests`: that folder.
inline void launch_counter_case(cuda::Device& device, const CounterCase& c,
                                const std::filesystem::path& tests) {
  std::ifstream file(tests / c.file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const cuda::Module module =
      device.load_module({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  std::vector<std::uint16_t> values(static_cast<std::size_t>(c.input_bytes) / 2);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        static_cast<std::uint16_t>(0x3000 + (i * 2654435761u >> 20 & 0x8fff));  // FP16, small
  const cuda::DeviceBytes input(device, c.input_bytes), output(device, c.output_bytes),
      second(device, c.input_bytes);
  device.copy_to_device(input.data(), values.data(), c.input_bytes, nullptr);
  device.copy_to_device(second.data(), values.data(), c.input_bytes, nullptr);
  device.synchronize(nullptr);
  const CounterArgs args{input.data(), c.rows, c.cols, output.data(), second.data(), 1.0f};
  device.launch({.kernel = device.find_kernel(module, c.kernel),
                 .grid = c.grid,
                 .threads = c.threads,
                 .args = &args,
                 .args_bytes = sizeof args});
  device.synchronize(nullptr);
}

}  // namespace microscale::testing
