// The levels of examples/levels/nvfp4_gemm_tcgen05, executed by the emulator: d against FP64, the
// same bits from each at any moment at which what is asynchronous may end, and the model's order.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cuda/device/kernel_images.hpp"
#include "emulator/device.hpp"
#include "image.hpp"
#include "nvfp4_gemm_tcgen05/ladder.hpp"
#include "nvfp4_gemm_tcgen05/problem.hpp"

namespace levels {
namespace {

using microscale::emulator::Completion;
using microscale::emulator::EmulatorDevice;

TEST(NvFp4GemmLevels, are_near_fp64_and_each_other_bit_by_bit) {
  const auto image =
      bytes_of_file(std::string(MICROSCALE_LEVELS) + "/nvfp4_gemm_tcgen05.sm_100f.ptx");
  if (image.empty() || microscale::cuda::kernel_images().empty())
    GTEST_SKIP() << "this build has no compiled levels: it was made without nvcc";
  const std::int64_t k = 1280;  // a stage more than level 2 has
  const GemmProblem problem(256, 256, k);
  // 2^-23 of the sum of magnitudes a step, and 5 * 2^-35 (docs/matmul_blackwell.md).
  const double bound = 1.1 * static_cast<double>(k) / 64 * 0x1p-23;
  std::vector<float> first;
  for (const GemmLevel& level : gemm_levels)
    for (const Completion completion : {Completion::latest, Completion::random}) {
      EmulatorDevice device(10, 0, {.completion = completion, .seed = 3}, 2);
      const std::vector<float> d = run_gemm(device, image, level, problem.a, problem.b);
      EXPECT_LT(problem.largest_error(d), bound) << level.name;
      if (first.empty()) first = d;
      EXPECT_TRUE(d == first) << level.name;
      EXPECT_TRUE(device.last_report.findings.empty()) << level.name;
    }
  EXPECT_GT(problem.largest_error(first), 0) << "too good to be true";
}

TEST(NvFp4GemmLevels, are_each_modelled_faster_than_the_one_before) {
  double before = INFINITY;
  for (const GemmLevel& level : gemm_levels) {
    const double us = modelled_us(level, 8192, 8192, 8192);
    EXPECT_LT(us, before) << level.name;
    before = us;
  }
  EXPECT_GT(before, 110);  // the floor
}

}  // namespace
}  // namespace levels
