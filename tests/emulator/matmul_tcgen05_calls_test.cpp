// Whole calls on the emulated datacenter Blackwell, chosen as on a GPU: a quantized d is the bytes
// that the CPU quantizes its FP32 twin to, of one matrix, of a batch, of experts and behind a gate.
#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/matmul.hpp"
#include "device_bytes.hpp"
#include "emulator/device.hpp"
#include "microscale/quantize.hpp"
#include "support/matrices.hpp"
#include "support/random_blocks.hpp"

namespace microscale::emulator {
namespace {

using cuda::DeviceBytes;

EmulatorDevice& device() {
  static EmulatorDevice made(10, 0, {.instruction_budget = 2'000'000'000}, 4);
  return made;
}

std::span<std::uint8_t> span_of(const DeviceBytes& bytes) {
  return {bytes.data(), static_cast<std::size_t>(bytes.size())};
}
std::vector<std::uint8_t> bytes_of(std::span<const std::uint8_t> s) { return {s.begin(), s.end()}; }
std::vector<std::uint8_t> zeros(std::int64_t bytes) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(bytes));
}

/// Block-scaled operands in device memory, scales in rows.
struct Operand {
  DeviceBytes codes, scales;
  BlockShape shape;  // of a matrix
  Operand(Format format, std::int64_t rows, std::int64_t matrices, std::int64_t k, unsigned seed)
      : Operand(test::random_blocks(format, rows * matrices, k, Layout::row_major, seed),
                {rows, k, format}) {}
  Operand(const BlockTensor& blocks, BlockShape of_matrix)
      : codes(device(), bytes_of(blocks.codes())),
        scales(device(), bytes_of(blocks.scales())),
        shape(of_matrix) {}
  BlockTensorView view(const float* global) const {
    return {.shape = shape,
            .codes = span_of(codes),
            .scales = span_of(scales),
            .global_scale = GlobalScale::on_device(global)};
  }
};

struct Case {
  Format format;  // of a and the weights
  Format d;       // of the quantized d
  Layout layout;  // of its scales
  std::int64_t m, n, k, matrices = 1;
  bool gated = false;
};

/// The product of a case into `d`, by the family of plans that names itself so.
void multiply(const Case& c, const MatmulOutput& d) {
  const Operand a(c.format, c.m, c.matrices, c.k, 1), b(c.format, c.n, c.matrices, c.k, 2),
      up(c.format, c.n, c.matrices, c.k, 3);
  const DeviceBytes one(device(), {0x00, 0x00, 0x80, 0x3B});  // 2^-8
  const auto* global = reinterpret_cast<const float*>(one.data());
  const MatmulInput of_a = a.view(global);
  const MatmulWeights of_b = b.view(global);
  const BlockTensorView of_up = up.view(global);
  MatmulCall call{.a = of_a, .b = of_b, .d = d};
  call.on_device = true;
  call.matrices = c.matrices;
  call.gated = c.gated;
  if (c.gated) call.up = &of_up;
  const cuda::Plan plan = cuda::plan_matmul(cuda::DeviceFacts(device()), call);
  EXPECT_TRUE(cuda::describe(plan).starts_with("tcgen05")) << cuda::describe(plan);
  const DeviceBytes workspace(device(), std::max<std::int64_t>(plan.workspace_bytes(), 1));
  cuda::matmul(device(), call, span_of(workspace), nullptr);
}

TEST(TensorProductCalls, quantize_d_to_the_bytes_of_the_cpu) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  using enum Format;
  for (const Case& c : {Case{nvfp4, nvfp4, Layout::tiled_128x4, 140, 96, 128},
                        {nvfp4, nvfp4, Layout::row_major, 33, 48, 64, 3},
                        {nvfp4, nvfp4, Layout::tiled_128x4, 130, 160, 64, 1, true},
                        {mxfp4, mxfp4, Layout::row_major, 140, 96, 128},
                        {mxfp4, mxfp8_e4m3, Layout::tiled_128x4, 20, 64, 64, 2},
                        {mxfp8_e4m3, mxfp8_e4m3, Layout::tiled_128x4, 140, 96, 96},
                        {mxfp8_e5m2, mxfp4, Layout::row_major, 40, 288, 64, 1, true}}) {
    SCOPED_TRACE(std::string(info(c.format).name) + " to " + std::string(info(c.d).name));
    const BlockShape shape{c.m, c.n, c.d, BlockAxis::cols, c.layout};
    const DeviceBytes sums(device(), zeros(c.matrices * c.m * c.n * 4)),
        codes(device(), zeros(c.matrices * shape.code_bytes())),
        scales(device(), zeros(c.matrices * shape.scale_bytes())),
        quarter(device(), {0x00, 0x00, 0x80, 0x3E});
    QuantizedOutput d{.format = c.d, .layout = c.layout};
    d.numerics.scale_rule = c.d == nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
    d.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(quarter.data()));
    d.codes = span_of(codes), d.scales = span_of(scales);
    multiply(c, d);
    multiply(c, MutableTensorView{sums.data(), DType::f32, c.m, c.n, c.n});
    const std::vector<std::uint8_t> fp32 = sums.to_host(), got_codes = codes.to_host(),
                                    got_scales = scales.to_host();
    for (std::int64_t i = 0; i < c.matrices; ++i) {
      BlockTensor want(shape);
      QuantizeOptions options{.input = {fp32.data() + i * c.m * c.n * 4, DType::f32, c.m, c.n, c.n},
                              .format = c.d,
                              .numerics = d.numerics};
      options.layout = c.layout;
      if (c.d == nvfp4) options.global_scale = 0.25f;
      quantize_into(options, want.codes(), want.scales(), {.backend = Backend::reference});
      EXPECT_TRUE(std::equal(want.codes().begin(), want.codes().end(),
                             got_codes.begin() + i * shape.code_bytes()))
          << "matrix " << i;
      EXPECT_TRUE(std::equal(want.scales().begin(), want.scales().end(),
                             got_scales.begin() + i * shape.scale_bytes()))
          << "matrix " << i;
      EXPECT_NE(want.codes()[0] | want.codes()[1] | want.codes()[2] | want.codes()[3], 0);
    }
  }
}

}  // namespace
}  // namespace microscale::emulator
