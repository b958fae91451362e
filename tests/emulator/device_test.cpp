#include "emulator/device.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "cuda/device/kernel_images.hpp"
#include "cuda/operations.hpp"
#include "emulator/memory/tensor_map.hpp"
#include "emulator/run_ptx.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale::emulator {
namespace {

struct Gpu {
  int major;
  const char* name;
};
constexpr Gpu gpus[] = {{9, "sm_90a"}, {10, "sm_100f"}, {12, "sm_120f"}};

std::vector<float> matrix(std::int64_t rows, std::int64_t cols) {
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        i % 97 == 0
            ? 0.0f
            : normal(random) * std::exp2(static_cast<float>(static_cast<int>(random() % 24) - 12));
  return values;
}

/// The codes, then the scales.
using Bytes = std::vector<std::uint8_t>;

QuantizeOptions options_of(Format format, const float* data, std::int64_t rows, std::int64_t cols,
                           BlockAxis axis) {
  QuantizeOptions options;
  options.format = format;
  options.input = {
      .data = data, .dtype = DType::f32, .rows = rows, .cols = cols, .row_stride = cols};
  options.axis = axis;
  return options;
}

void expect_equal_to_reference(const Gpu& gpu, Format format, std::int64_t rows, std::int64_t cols,
                               BlockAxis axis, const LaunchOptions& launch = {}) {
  SCOPED_TRACE(std::string(gpu.name) + ", " + std::to_string(rows) + " x " + std::to_string(cols));
  const std::vector<float> values = matrix(rows, cols);
  constexpr float global = 0.015625f;
  QuantizeOptions options = options_of(format, values.data(), rows, cols, axis);
  if (format == Format::nvfp4) options.global_scale = global;
  const std::int64_t count = rows * cols;
  Bytes codes(static_cast<std::size_t>(format == Format::mxfp8_e4m3 ? count : count / 2));
  Bytes scales(static_cast<std::size_t>(count / (format == Format::nvfp4 ? 16 : 32)));
  quantize_into(options, codes, scales, {.backend = Backend::reference});

  // One device for all tests of an architecture: reading its kernels takes longer than running
  // them.
  static std::map<int, std::unique_ptr<EmulatorDevice>> devices;
  auto& made = devices[gpu.major];
  if (!made) made = std::make_unique<EmulatorDevice>(gpu.major, 0);
  EmulatorDevice& device = *made;
  device.options = launch;
  void* input = device.allocate(4 * count);
  device.copy_to_device(input, values.data(), 4 * count, nullptr);
  auto* made_codes =
      static_cast<std::uint8_t*>(device.allocate(static_cast<std::int64_t>(codes.size())));
  auto* made_scales =
      static_cast<std::uint8_t*>(device.allocate(static_cast<std::int64_t>(scales.size())));
  options.input.data = input;
  if (format == Format::nvfp4) {
    auto* scale = static_cast<float*>(device.allocate(4));
    device.copy_to_device(scale, &global, 4, nullptr);
    options.global_scale = GlobalScale::on_device(scale);
  }
  cuda::quantize(device, options, {made_codes, codes.size()}, {made_scales, scales.size()},
                 nullptr);
  Bytes got_codes(codes.size()), got_scales(scales.size());
  device.copy_to_host(got_codes.data(), made_codes, static_cast<std::int64_t>(codes.size()),
                      nullptr);
  device.copy_to_host(got_scales.data(), made_scales, static_cast<std::int64_t>(scales.size()),
                      nullptr);
  EXPECT_EQ(got_codes, codes);
  EXPECT_EQ(got_scales, scales);
}

class EmulatedKernels : public ::testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};
INSTANTIATE_TEST_SUITE_P(Architectures, EmulatedKernels, ::testing::ValuesIn(gpus),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(EmulatedKernels, quantize_as_the_reference_does_on_odd_shapes) {
  for (const Format format : {Format::mxfp4, Format::mxfp8_e4m3, Format::nvfp4})
    for (const auto& [rows, cols] : {std::pair<int, int>{1, 32}, {33, 96}, {3, 1056}})
      expect_equal_to_reference(GetParam(), format, rows, cols, BlockAxis::cols);
}

TEST_P(EmulatedKernels, quantize_down_columns_as_the_reference_does) {
  for (const Format format : {Format::mxfp4, Format::nvfp4})
    expect_equal_to_reference(GetParam(), format, 64, 72, BlockAxis::rows);
}

TEST_P(EmulatedKernels, do_the_same_in_any_order_of_warps) {
  for (const Schedule schedule : {Schedule::reverse, Schedule::random})
    expect_equal_to_reference(GetParam(), Format::mxfp4, 40, 128, BlockAxis::cols,
                              {.schedule = schedule,
                               .completion = Completion::random,
                               .seed = 3,
                               .instruction_budget = 100'000'000,
                               .threads = 2,
                               .races = true,
                               .statistics = false});
}

TEST(EmulatorDevice, runs_ptx_that_it_is_given_as_text) {
  EmulatorDevice device(12, 0);
  const std::string text =
      testing::entry("ld.param.u64 %rd1, [p]; mov.u32 %r1, 5; st.global.u32 [%rd1], %r1;");
  void* module =
      device.load_module({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  EXPECT_EQ(device.find_kernel(module, "other"), nullptr);
  const cuda::Kernel kernel = device.find_kernel(module, "k");
  ASSERT_NE(kernel, nullptr);
  void* memory = device.allocate(4);
  EXPECT_EQ(device.memory_of(memory), cuda::Memory::device);
  EXPECT_EQ(device.memory_of(&device), cuda::Memory::host);
  device.launch({.kernel = kernel,
                 .grid = {},
                 .threads = 1,
                 .shared_bytes = 0,
                 .stream = nullptr,
                 .args = &memory,
                 .args_bytes = 8});
  int got = 0;
  device.copy_to_host(&got, memory, 4, nullptr);
  EXPECT_EQ(got, 5);
  device.release(memory);
}

TEST(EmulatorDevice, a_finding_becomes_an_error_that_names_it) {
  EmulatorDevice device(12, 0);
  const std::string text = testing::entry("ld.param.u64 %rd1, [p]; st.global.u32 [%rd1+4], %r1;");
  void* module =
      device.load_module({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  void* memory = device.allocate(4);
  try {
    device.launch({.kernel = device.find_kernel(module, "k"),
                   .grid = {},
                   .threads = 1,
                   .shared_bytes = 0,
                   .stream = nullptr,
                   .args = &memory,
                   .args_bytes = 8});
    FAIL() << "nothing was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::check_failed);
    EXPECT_NE(std::string(error.what()).find("kernel k, block (0,0,0), thread (0,0,0), PTX line"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(device.begin_capture(nullptr), Error);
}

TEST(EmulatorDevice, describes_tensors_as_its_machine_reads_them) {
  EmulatorDevice device(9, 0);
  void* memory = device.allocate(1 << 16);
  cuda::TensorBoxes boxes{.data = memory,
                          .rank = 2,
                          .element_bytes = 2,
                          .size = {100, 7},
                          .stride = {2, 208},
                          .box = {64, 16},
                          .swizzle_128 = true};
  const cuda::TensorMap made = device.tensor_map(boxes);
  const std::optional<TensorMap> map = decode(made.bytes);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->address, reinterpret_cast<std::uintptr_t>(memory));
  EXPECT_EQ(map->size[1], 7u);
  EXPECT_EQ(map->stride[1], 208u);
  EXPECT_EQ(map->box_bytes(), 2048u);
  EXPECT_EQ(map->swizzle, Swizzle::b128);
  boxes.stride[1] = 200;  // no multiple of 16
  EXPECT_THROW(device.tensor_map(boxes), Error);
  device.release(memory);
}

}  // namespace
}  // namespace microscale::emulator
