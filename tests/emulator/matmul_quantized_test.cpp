// A batch of products of few rows whose d is quantized, on the emulated Hopper GPU: the bytes of
// quantizing each matrix of the FP32 d on the host.
#include "cuda/matmul/matmul.hpp"

#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "device_bytes.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {
namespace {

using cuda::DeviceBytes;
using test::Matrix;

struct Batch {
  std::int64_t m, n, k = 64, matrices = 3;
  Format format = Format::mxfp8_e4m3;
  Layout layout = Layout::row_major;

  BlockShape shape() const { return {m, n, format, BlockAxis::cols, layout}; }
};

std::vector<std::uint8_t> zeros(std::int64_t bytes) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(bytes));
}
std::span<std::uint8_t> span_of(const DeviceBytes& bytes) {
  return {bytes.data(), static_cast<std::size_t>(bytes.size())};
}

/// A decode multiplier of 1/4.
std::vector<std::uint8_t> quarter() { return {0x00, 0x00, 0x80, 0x3E}; }

/// The product of the same operands into `d`.
void multiply(const Batch& b, const MatmulOutput& d) {
  cuda::Device& gpu = device();
  const Matrix a = test::gaussian(DType::bf16, b.m * b.matrices, b.k, 1);
  const BlockTensor weights = test::random_blocks(Format::mxfp4, b.n * b.matrices, b.k);
  const auto bytes_of = [](std::span<const std::uint8_t> s) {
    return std::vector<std::uint8_t>(s.begin(), s.end());
  };
  const DeviceBytes input(gpu, a.bytes), codes(gpu, bytes_of(weights.codes())),
      scales(gpu, bytes_of(weights.scales()));
  const MatmulInput of_a = TensorView{input.data(), DType::bf16, b.m, b.k, b.k};
  const MatmulWeights of_b = BlockTensorView{
      .shape = {b.n, b.k, Format::mxfp4}, .codes = span_of(codes), .scales = span_of(scales)};
  MatmulCall call{.a = of_a, .b = of_b, .d = d};
  call.on_device = true;
  call.matrices = b.matrices;
  const std::int64_t bytes = cuda::matmul_workspace_bytes(gpu, call);
  const DeviceBytes workspace(gpu, std::max<std::int64_t>(bytes, 1));
  cuda::matmul(gpu, call, {workspace.data(), static_cast<std::size_t>(bytes)}, nullptr);
}

class MatmulQuantized : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_F(MatmulQuantized, matrices_of_a_batch_need_not_begin_at_multiples_of_16_bytes) {
  cuda::Device& gpu = device();
  for (const Format format : {Format::mxfp8_e4m3, Format::mxfp4, Format::nvfp4})
    for (const Layout layout : {Layout::row_major, Layout::tiled_128x4})
      for (const std::int64_t m : {1, 3, 16})
        for (const std::int64_t n : {32, 48, 64, 256}) {
          const Batch b{.m = m, .n = n, .format = format, .layout = layout};
          if (n % info(format).block != 0) continue;
          const std::int64_t code_bytes = b.shape().code_bytes(),
                             scale_bytes = b.shape().scale_bytes();
          const DeviceBytes sums(gpu, zeros(b.matrices * m * n * 4)),
              codes(gpu, zeros(b.matrices * code_bytes)),
              scales(gpu, zeros(b.matrices * scale_bytes)), global(gpu, quarter());
          QuantizedOutput d{.format = format, .layout = layout};
          d.numerics.scale_rule = format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
          d.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(global.data()));
          d.codes = span_of(codes), d.scales = span_of(scales);
          if (layout != Layout::row_major && code_bytes % 16 != 0) {
            try {
              multiply(b, d);
              ADD_FAILURE() << "no error";
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
              EXPECT_EQ(codes.to_host(), zeros(codes.size()));
            }
            continue;
          }
          multiply(b, d);
          multiply(b, MutableTensorView{sums.data(), DType::f32, m, n, n});
          const std::vector<std::uint8_t> fp32 = sums.to_host(), got_codes = codes.to_host(),
                                          got_scales = scales.to_host();
          for (std::int64_t i = 0; i < b.matrices; ++i) {
            BlockTensor want(b.shape());
            QuantizeOptions options{.input = {fp32.data() + i * m * n * 4, DType::f32, m, n, n},
                                    .format = format,
                                    .numerics = d.numerics};
            options.layout = layout;
            if (format == Format::nvfp4) options.global_scale = 0.25f;
            quantize_into(options, want.codes(), want.scales(), {.backend = Backend::reference});
            EXPECT_TRUE(std::equal(want.codes().begin(), want.codes().end(),
                                   got_codes.begin() + i * code_bytes))
                << info(format).name << " " << m << " " << n << " matrix " << i;
            EXPECT_TRUE(std::equal(want.scales().begin(), want.scales().end(),
                                   got_scales.begin() + i * scale_bytes))
                << info(format).name << " " << m << " " << n << " matrix " << i;
          }
        }
}

}  // namespace
}  // namespace microscale::emulator
