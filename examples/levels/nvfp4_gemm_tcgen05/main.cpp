// The ladder of NVFP4 products out of tensor memory: needs no GPU. Each level is executed on the
// emulator and its d compared with FP64; what it would take on a B200 is modelled (ladder.hpp).
#include <cmath>
#include <cstdio>
#include <exception>

#include "emulator/device.hpp"
#include "../image.hpp"
#include "ladder.hpp"
#include "problem.hpp"

int main() try {
  using namespace levels;
  const auto image = image_beside_program("nvfp4_gemm_tcgen05", "100f", "ptx");
  const GemmProblem problem(256, 256, 1024);
  std::printf("%-42s %10s %22s %10s\n", "level", "largest", "8192^3 on a B200,", "of 10 PF");
  std::printf("%-42s %10s %22s %10s\n", "", "error", "modelled, us", "");
  for (const GemmLevel& level : gemm_levels) {
    microscale::emulator::EmulatorDevice device(10, 0, {}, 2);
    const double error =
        problem.largest_error(run_gemm(device, image, level, problem.a, problem.b));
    const double us = modelled_us(level, 8192, 8192, 8192);
    std::printf("%-42s %10.1e %22.0f %9.0f%%\n", level.name, error, us,
                2 * std::pow(8192.0, 3) / us / 1e10 * 100);
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
