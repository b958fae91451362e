// Products of very many rows whose d is quantized by the kernel that makes it, on the emulated
// Hopper GPU: the bytes of quantizing the FP32 d, of every format, layout and epilogue.
#include <gtest/gtest.h>

#include <limits>

#include "cuda/kernel_images.hpp"
#include "support/wide_products.hpp"

namespace microscale::emulator {
namespace {

constexpr Format formats[] = {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2};
constexpr Layout layouts[] = {Layout::row_major, Layout::tiled_128x4};

Side blocks(Format format, std::int64_t rows, std::int64_t cols, unsigned seed = 1) {
  return Side(test::random_blocks(format, rows, cols, Layout::row_major, seed));
}

/// What becomes of d.
struct Quantized {
  Format format;
  Layout layout = Layout::row_major;
  Numerics numerics{};
  float global = 0.37f;
};
Quantized as(Format format, Layout layout = Layout::row_major) {
  Quantized q{.format = format, .layout = layout};
  q.numerics.scale_rule = format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
  return q;
}

std::vector<std::uint8_t> from_device(const void* data, std::size_t bytes) {
  std::vector<std::uint8_t> host(bytes);
  device().copy_to_host(host.data(), data, static_cast<std::int64_t>(bytes), nullptr);
  return host;
}

/// Codes and scales of all matrices, by the kernel and by quantizing the FP32 d on the host.
::testing::AssertionResult same_as_quantizing(const Product& p, const Quantized& q) {
  const BlockShape shape{p.m, p.n(), q.format, BlockAxis::cols, q.layout};
  const auto matrices = static_cast<std::size_t>(p.matrices),
             codes = static_cast<std::size_t>(shape.code_bytes()),
             scales = static_cast<std::size_t>(shape.scale_bytes());
  Buffers memory;
  cuda::WideCall call = operands_of(p, memory);
  call.output = output_of(p, memory, Matrix(DType::f32, 0, 0));
  call.output.d_type = static_cast<std::int32_t>(DType::f32);
  const QuantizedOutput out{
      .format = q.format,
      .numerics = q.numerics,
      .layout = q.layout,
      .device_global_scale = memory.put(&q.global, 1),
      .codes = {memory.put(std::vector<std::uint8_t>(matrices * codes, untouched)),
                matrices * codes},
      .scales = {memory.put(std::vector<std::uint8_t>(matrices * scales, untouched)),
                 matrices * scales}};
  if (!cuda::dense_quantizes(call, out)) return ::testing::AssertionFailure() << "is not taken";
  call.quantized = &out;
  call.workspace = memory.raw(static_cast<std::size_t>(cuda::dense_workspace_bytes(call)));
  cuda::matmul_dense(device(), "matmul", call, nullptr);
  const auto got_codes = from_device(out.codes.data(), out.codes.size()),
             got_scales = from_device(out.scales.data(), out.scales.size());

  Product fp32 = p;
  fp32.dense = true, fp32.d_type = DType::f32;
  const Matrix d = computed(fp32);
  for (std::size_t i = 0; i < matrices; ++i) {
    BlockTensor wanted(shape);
    QuantizeOptions options{.input = d.view(), .format = q.format, .numerics = q.numerics};
    options.input.data = d.bytes.data() + i * static_cast<std::size_t>(p.m * p.n() * 4);
    options.input.rows = p.m;
    options.layout = q.layout;
    if (q.format == Format::nvfp4) options.global_scale = q.global;
    quantize_into(options, wanted.codes(), wanted.scales(), {.backend = Backend::reference});
    const auto differs = [&](const char* what, std::span<const std::uint8_t> want,
                             const std::vector<std::uint8_t>& got) {
      for (std::size_t at = 0; at < want.size(); ++at)
        if (want[at] != got[i * want.size() + at])
          return std::string(what) + " byte " + std::to_string(at) + " of " +
                 std::to_string(want.size()) + " of matrix " + std::to_string(i) + " is " +
                 std::to_string(got[i * want.size() + at]) + ", wanted " + std::to_string(want[at]);
      return std::string();
    };
    for (const std::string& difference :
         {differs("scale", std::as_const(wanted).scales(), got_scales),
          differs("code", std::as_const(wanted).codes(), got_codes)})
      if (!difference.empty())
        return ::testing::AssertionFailure()
               << info(q.format).name << (q.layout == Layout::tiled_128x4 ? " tiled: " : " rows: ")
               << difference;
  }
  return ::testing::AssertionSuccess();
}

class MatmulDenseQuantized : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

// Whole tiles and the rests of them, rows and columns of padding, several tiles to a cluster; words
// of scales, and single bytes where rows of scales do not begin at words.
TEST_F(MatmulDenseQuantized, gives_the_bytes_of_quantizing_fp32) {
  for (const Format format : formats)
    for (const Layout layout : layouts)
      for (const std::int64_t n : {544, 512, 96}) {
        SCOPED_TRACE(n);
        EXPECT_TRUE(same_as_quantizing({.a = blocks(Format::mxfp4, n == 544 ? 300 : 21, 64, 3),
                                        .b = blocks(Format::mxfp8_e4m3, n, 64),
                                        .m = n == 544 ? 300 : 21,
                                        .alpha = 0x1.5p-7f},
                                       as(format, layout)));
      }
}

}  // namespace
}  // namespace microscale::emulator
