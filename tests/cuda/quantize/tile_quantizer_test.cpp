// The way of a tile to a device and back, on one whose kernels are the host's code.
#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "cuda/operations.hpp"
#include "cuda/queueing_device.hpp"
#include "microscale/error.hpp"
#include "support/matrices.hpp"

namespace microscale::cuda {
namespace {

using test::QueueingDevice;

constexpr TileBufferSizes sizes{1 << 16, 1 << 15, 1 << 12};

class DeviceTileQuantizer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }

  // Quantizes on the device, from and to its own buffers, and on the host.
  void expect_same(TileQuantizer& quantizer, const microscale::test::Matrix& matrix,
                   QuantizeOptions options) {
    const TileBuffers buffers = quantizer.buffers();
    std::copy(matrix.bytes.begin(), matrix.bytes.end(), buffers.input.begin());
    options.input = matrix.view();
    BlockTensor wanted = microscale::quantize(options);
    options.input.data = buffers.input.data();
    const auto codes = buffers.codes.first(wanted.codes().size());
    const auto scales = buffers.scales.first(wanted.scales().size());
    EXPECT_EQ(quantizer.quantize(options, codes, scales), wanted.global_scale);
    EXPECT_TRUE(std::equal(codes.begin(), codes.end(), wanted.codes().begin()));
    EXPECT_TRUE(std::equal(scales.begin(), scales.end(), wanted.scales().begin()));
  }

  QueueingDevice device;
};

TEST_F(DeviceTileQuantizer, gives_the_bytes_of_the_host) {
  const auto quantizer = make_tile_quantizer(device, sizes);
  unsigned seed = 1;
  for (const Format format : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const std::int64_t rows : {1, 5, 33}) {
        SCOPED_TRACE(std::string(info(format).name) + " " + std::to_string(rows));
        QuantizeOptions options{.input = {}, .format = format};
        if (format == Format::nvfp4) options.tensor_amax = 0.1f * static_cast<float>(rows);
        expect_same(*quantizer, microscale::test::gaussian(dtype, rows, 96, seed++), options);
        options.numerics.scale_rule =
            format == Format::nvfp4 ? ScaleRule::four_over_six : ScaleRule::ceil;
        options.numerics.rounding = Rounding::stochastic;
        options.numerics.seed = 9;
        options.first_index = 12345;
        expect_same(*quantizer, microscale::test::gaussian(dtype, rows, 96, seed++), options);
      }
  EXPECT_EQ(device.launches, 72);
  EXPECT_EQ(device.waits, 72);
}

TEST_F(DeviceTileQuantizer, sends_a_global_scale_again_only_when_it_changed) {
  const auto quantizer = make_tile_quantizer(device, sizes);
  QuantizeOptions options{.input = {}, .format = Format::nvfp4};
  for (const float amax : {0.5f, 0.5f, 0.25f, 0.25f, 0.5f}) {
    options.tensor_amax = amax;
    expect_same(*quantizer, microscale::test::gaussian(DType::bf16, 8, 64), options);
  }
  EXPECT_EQ(device.copies_to_device, 5 + 3);
}

TEST_F(DeviceTileQuantizer, takes_the_profile_that_is_the_specification) {
  const auto quantizer = make_tile_quantizer(device, sizes);
  QuantizeOptions options{.input = {}, .format = Format::mxfp4};
  options.numerics = numerics_for(Compat::ocp, Format::mxfp4);
  expect_same(*quantizer, microscale::test::gaussian(DType::f32, 8, 64), options);
  EXPECT_EQ(device.launches, 1);
}

TEST_F(DeviceTileQuantizer, knows_what_the_device_refuses) {
  auto* memory = static_cast<std::uint8_t*>(device.allocate(1 << 16));
  const auto stream = device.make_stream();
  const std::vector<float> weights(64, 1.0f);
  for (const FormatInfo& format : all_formats())
    for (const Compat compat : {Compat::none, Compat::ocp, Compat::modelopt, Compat::vllm})
      for (const bool weighted : {false, true}) {
        QuantizeOptions options{.input = {memory, DType::bf16, 8, 64, 64}, .format = format.format};
        options.numerics.compat = compat;
        if (weighted) options.weights = weights;
        const BlockShape shape{8, 64, format.format};
        if (format.format == Format::nvfp4)
          options.global_scale =
              GlobalScale::on_device(reinterpret_cast<const float*>(memory + 32768));
        bool refused = false;
        try {
          quantize(device, options, {memory + 8192, static_cast<std::size_t>(shape.code_bytes())},
                   {memory + 16384, static_cast<std::size_t>(shape.scale_bytes())}, stream);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
          refused = true;
        }
        EXPECT_EQ(!host_only_reason(options).empty(), refused)
            << format.name << ' ' << to_string(compat) << ' ' << weighted;
      }
  device.release_stream(stream);
  device.release(memory);
}

TEST_F(DeviceTileQuantizer, gives_back_what_it_took) {
  { const auto quantizer = make_tile_quantizer(device, sizes); }
  EXPECT_EQ(device.held(), 0u);
  device.room = 1000;
  try {
    make_tile_quantizer(device, sizes);
    FAIL() << "no error without room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("lower --threads"), std::string::npos);
  }
  EXPECT_EQ(device.held(), 0u);
}

}  // namespace
}  // namespace microscale::cuda
