// What a level is: one kernel, how it is launched, and which of the library's rules it follows.
// Every kernel of a ladder takes the same Args, so the harness can launch any of them by its
// address.
#pragma once

#include <cstdint>
#include <string>

#include "microscale/format.hpp"
#include "microscale/numerics.hpp"

namespace levels {

/// A matrix without gaps between its rows, and where its codes and scales go. All device memory.
struct Args {
  const void* input;  // rows x cols
  std::int64_t rows;
  std::int64_t cols;  // a multiple of the block
  std::uint8_t* codes;
  std::uint8_t* scales;  // row-major, or 128x4 tiles whose padding is zero already
  float global_scale;    // NVFP4: decode multiplier
};

struct Grid {
  std::int64_t x = 1, y = 1;
};

struct Level {
  std::string name;
  const void* kernel;
  int threads;  // of a thread block
  Grid (*grid)(std::int64_t rows, std::int64_t cols);
  microscale::DType input = microscale::DType::f32;
  microscale::Rounding rounding = microscale::Rounding::nearest_even;
  bool tiled = false;      // scales in 128x4 tiles
  bool blackwell = false;  // uses an instruction that Hopper lacks
};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace levels
