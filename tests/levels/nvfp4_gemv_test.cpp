// The levels of examples/levels/nvfp4_gemv, executed by the emulator: what each computes of the
// data the contest used, and of data that uses the whole range of the format.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "emulator/device.hpp"
#include "image.hpp"
#include "nvfp4_gemv/problem.hpp"

namespace levels {
namespace {

using microscale::emulator::EmulatorDevice;
using microscale::emulator::LaunchOptions;
using microscale::emulator::Schedule;

struct Gpu {
  const char* architecture;
  int major;
};
constexpr GemvShape small_shapes[] = {{5, 64, 1}, {131, 320, 2}};

class NvFp4GemvLevels : public ::testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    image = bytes_of_file(std::string(MICROSCALE_LEVELS) + "/nvfp4_gemv.sm_" +
                          GetParam().architecture + ".ptx");
    if (image.empty())
      GTEST_SKIP() << "this build has no compiled levels: it was made without nvcc";
  }
  std::vector<double> run(const GemvLevel& level, const GemvInput& input, bool tiled = false,
                          const LaunchOptions& options = {}) const {
    EmulatorDevice device(GetParam().major, 0, options);
    return run_gemv(device, launcher_on(device, image), level, input, tiled);
  }
  std::vector<std::uint8_t> image;
};
INSTANTIATE_TEST_SUITE_P(All, NvFp4GemvLevels, ::testing::Values(Gpu{"90a", 9}, Gpu{"120f", 12}),
                         [](const auto& gpu) {
                           return std::string("sm_") + gpu.param.architecture;
                         });

const GemvLevel& level_of(const std::string& entry) {
  for (const GemvLevel& level : gemv_levels)
    if (level.entry == entry) return level;
  throw std::runtime_error(entry);
}

// Low nibbles of 0 to 1.5 under scales of 0 to 2: nothing ever rounds but the last step.
TEST_P(NvFp4GemvLevels, are_exact_on_the_data_of_the_contest) {
  std::vector<GemvShape> shapes(std::begin(small_shapes), std::end(small_shapes));
  shapes.push_back({17, 16384, 1});
  for (const GemvShape& shape : shapes) {
    const GemvInput input = gemv_input(GemvData::task, shape);
    const GemvTruth truth = gemv_truth(input);
    for (const GemvLevel& level : gemv_levels) {
      const auto errors = compare(level, input, truth, run(level, input));
      EXPECT_EQ(errors.unequal, 0) << level.name << ", k " << shape.k << ": " << errors.first;
    }
  }
}

TEST_P(NvFp4GemvLevels, stay_within_what_their_arithmetic_may_be_off) {
  for (const GemvShape& shape : small_shapes) {
    const GemvInput input = gemv_input(GemvData::half, shape);
    const GemvTruth truth = gemv_truth(input);
    for (const GemvLevel& level : gemv_levels) {
      const auto errors = compare(level, input, truth, run(level, input));
      EXPECT_EQ(errors.wrong, 0) << errors.first;
      if (shape.m < 100) continue;
      if (level.kept == Kept::products)
        EXPECT_EQ(errors.beyond, 0) << level.name;
      else  // 11 bits a product, and sums that cancel: the contest's tolerance is not met
        EXPECT_GT(errors.beyond, 0) << level.name;
    }
  }
}

TEST_P(NvFp4GemvLevels, with_exact_products_hold_the_whole_range_and_halves_overflow) {
  const GemvInput input = gemv_input(GemvData::full, small_shapes[1]);
  const GemvTruth truth = gemv_truth(input);
  for (const GemvLevel& level : gemv_levels) {
    const auto errors = compare(level, input, truth, run(level, input));
    if (level.kept == Kept::products) {
      EXPECT_EQ(errors.wrong, 0) << errors.first;
      EXPECT_EQ(errors.not_numbers, 0) << level.name;
    } else {
      EXPECT_GT(errors.not_numbers, 0) << level.name;
    }
  }
}

// 0.5 * 0.5 * 448 * 448 = 50,176 is an FP16 number; 448 * 448 is none.
TEST_P(NvFp4GemvLevels, that_multiply_scales_in_halves_lose_a_product_that_fits) {
  const GemvInput input = gemv_input(GemvData::corner, small_shapes[1]);
  for (const GemvLevel& level : gemv_levels)
    for (const double value : run(level, input)) {
      if (level.kept == Kept::products)
        ASSERT_EQ(value, 50176.0) << level.name;
      else
        ASSERT_TRUE(std::isnan(value)) << level.name << ": infinity times the zeros beside it";
    }
}

TEST_P(NvFp4GemvLevels, make_nan_of_the_row_whose_scale_is_nan_and_of_no_other) {
  GemvInput input = gemv_input(GemvData::half, small_shapes[1]);
  input.a_scales[7 * 320 / 16 + 5] = 0x7F;
  for (const GemvLevel& level : gemv_levels) {
    const auto got = run(level, input);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(std::isnan(got[i]), i == 7) << level.name << ", row " << i;
  }
}

TEST_P(NvFp4GemvLevels, three_four_six_and_seven_differ_in_loads_only) {
  const GemvInput input = gemv_input(GemvData::half, small_shapes[1]);
  const auto want = run(level_of("gemv_3_warp_per_row"), input);
  for (const char* entry : {"gemv_4_wide_loads", "gemv_6_unroll_8", "gemv_6_block_256",
                            "gemv_6_registers_64", "gemv_6_registers_24", "gemv_7_prefetch"})
    EXPECT_EQ(run(level_of(entry), input), want) << entry;
}

TEST_P(NvFp4GemvLevels, eight_takes_scales_in_tiles_as_well) {
  const GemvLevel& level = level_of("gemv_8_matrix_unit");
  for (const GemvShape& shape : small_shapes) {
    const GemvInput input = gemv_input(GemvData::half, shape);
    EXPECT_EQ(run(level, input, true), run(level, input, false));
  }
}

TEST_P(NvFp4GemvLevels, by_atomics_leave_zeros_for_the_next_run) {
  const GemvInput input = gemv_input(GemvData::half, small_shapes[1]);
  const GemvLevel& split = level_of("gemv_2_split_k");
  EmulatorDevice device(GetParam().major, 0);
  const GemvLauncher launch = launcher_on(device, image);
  const GemvBuffers buffers(device, input);
  run_level(split, input.shape, [&](const GemvLaunch& each) {
    const bool second = each.entry == std::string(split.second);
    EXPECT_EQ(buffers.sums() != std::vector<float>(buffers.sums().size()), second);
    launch(each, buffers.args());
  });
  EXPECT_EQ(buffers.sums(), std::vector<float>(buffers.sums().size()));
}

TEST_P(NvFp4GemvLevels, but_for_atomics_give_the_same_bits_in_any_order) {
  const GemvInput input = gemv_input(GemvData::half, small_shapes[1]);
  for (const GemvLevel& level : gemv_levels) {
    if (level.second) continue;
    EXPECT_EQ(run(level, input, false, {.schedule = Schedule::random, .seed = 9}),
              run(level, input, false, {.schedule = Schedule::reverse}))
        << level.name;
  }
}

}  // namespace
}  // namespace levels
