// What matrix products tell the device, and what they refuse, without a GPU.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "cuda/block/quantize_args.hpp"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/matmul/matmul.hpp"
#include "cuda/operations.hpp"
#include "fake_device.hpp"
#include "microscale/quantize.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

using test::expect_error;

// m = 5, n = 48, k = 192.
class CudaMatmul : public ::testing::Test {
 protected:
  CudaMatmul() {
    a_view = {a->bytes, DType::bf16, 5, 192, 192};
    const BlockShape shape{48, 192, Format::nvfp4};
    weights.shape = shape;
    weights.codes = {b->bytes, static_cast<std::size_t>(shape.code_bytes())};
    weights.scales = {b->bytes + 32768, static_cast<std::size_t>(shape.scale_bytes())};
    weights.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(b->bytes + 49152));
    d_view = {d->bytes, DType::f16, 5, 48, 48};
  }
  void call() {
    const MatmulInput input = blocks ? MatmulInput(*blocks) : MatmulInput(a_view);
    const MatmulWeights b_weights = packed ? MatmulWeights(*packed) : MatmulWeights(weights);
    const MatmulOutput output = quantized ? MatmulOutput(*quantized) : MatmulOutput(d_view);
    MatmulCall matmul_call{.a = input, .b = b_weights, .d = output};
    matmul_call.on_device = true;
    const std::int64_t bytes = matmul_workspace_bytes(device, matmul_call);
    EXPECT_LE(bytes, 65536);
    matmul(device, matmul_call, {work->bytes + off, static_cast<std::size_t>(bytes - less)},
           nullptr);
  }
  test::FakeDevice device{9, 0};
  std::unique_ptr<test::Aligned> a = std::make_unique<test::Aligned>(),
                                 b = std::make_unique<test::Aligned>(),
                                 d = std::make_unique<test::Aligned>(),
                                 work = std::make_unique<test::Aligned>();
  TensorView a_view;
  BlockTensorView weights;
  std::optional<BlockTensorView> blocks;  // instead of a_view
  std::optional<PackedWeights> packed;
  std::optional<QuantizedOutput> quantized;
  MutableTensorView d_view;
  std::int64_t less = 0, off = 0;
};

TEST_F(CudaMatmul, launches_two_kernels_and_waits_for_nothing) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  call();
  ASSERT_EQ(device.launches.size(), 2u);
  EXPECT_EQ(device.launches[0].name, "matmul_prepare_rows_bf16");
  EXPECT_EQ(device.launches[1].name, "matmul_fallback_nvfp4_plain_unit_8");
  const auto args = device.launches[1].as<MatmulRowsArgs>();
  EXPECT_EQ(args.n, 48);
  EXPECT_EQ(args.k, 192);
  EXPECT_EQ(args.wide, 1);
  EXPECT_EQ(args.output.b_global, weights.global_scale.device_pointer());
  EXPECT_EQ(args.output.a_global, nullptr);
  EXPECT_EQ(device.launches[1].call.grid.x, 3u);
  EXPECT_EQ(device.waits, 0);
  EXPECT_TRUE(device.zeroed.empty());
}

TEST_F(CudaMatmul, packed_weights_and_a_quantized_result_are_two_kernels) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  const std::int64_t bytes = cuda::packed_weights_bytes(weights.shape, 1, false);
  EXPECT_EQ(bytes, 3 * 3 * 576);
  packed = cuda::pack_weights(device, weights, nullptr, {d->bytes, static_cast<std::size_t>(bytes)},
                              1, nullptr);
  EXPECT_EQ(device.launches[0].name, "pack_weights_nvfp4");
  EXPECT_EQ(packed->memory, Memory::device);
  const BlockShape shape{5, 48, Format::nvfp4, BlockAxis::cols, Layout::tiled_128x4};
  quantized = QuantizedOutput{.format = Format::nvfp4, .layout = Layout::tiled_128x4};
  quantized->global_scale = weights.global_scale;
  expect_error(ErrorCode::invalid_argument, "overlap", [&] {
    quantized->codes = {d->bytes, static_cast<std::size_t>(shape.code_bytes())};
    quantized->scales = {d->bytes + 32768, static_cast<std::size_t>(shape.scale_bytes())};
    call();
  });
  quantized->codes = {a->bytes + 32768, static_cast<std::size_t>(shape.code_bytes())};
  device.launches.clear();
  call();
  ASSERT_EQ(device.launches.size(), 2u);
  EXPECT_EQ(device.launches[0].name, "matmul_few_rows_nvfp4_packed_bf16_8");
  EXPECT_EQ(device.launches[0].as<few_rows::PackedArgs>().output.d, work->bytes);
  EXPECT_TRUE(device.launches[1].name.starts_with("quantize_")) << device.launches[1].name;
  EXPECT_EQ(device.launches[1].as<QuantizeArgs>().input, work->bytes);
}

// What the quantizer writes in 128x4 tiles goes into the product as it is: no repack between them,
// and of up to eight rows by packed weights nothing else either.
TEST_F(CudaMatmul, takes_what_the_quantizer_writes) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  const std::int64_t bytes = cuda::packed_weights_bytes(weights.shape, 1, false);
  packed = cuda::pack_weights(device, weights, nullptr, {d->bytes, static_cast<std::size_t>(bytes)},
                              1, nullptr);
  packed->global_scale = weights.global_scale;
  const BlockShape shape{5, 192, Format::nvfp4, BlockAxis::cols, Layout::tiled_128x4};
  const std::span codes(a->bytes + 16384, static_cast<std::size_t>(shape.code_bytes())),
      scales(a->bytes + 32768, static_cast<std::size_t>(shape.scale_bytes()));
  QuantizeOptions quantize{.input = a_view, .format = Format::nvfp4, .layout = shape.layout};
  quantize.global_scale = weights.global_scale;
  device.launches.clear();
  cuda::quantize(device, quantize, codes, scales, nullptr);
  d_view.data = d->bytes + 32768;
  blocks = BlockTensorView{shape, codes, scales};
  blocks->global_scale = weights.global_scale;
  call();
  ASSERT_EQ(device.launches.size(), 2u);
  EXPECT_TRUE(device.launches[0].name.starts_with("quantize_")) << device.launches[0].name;
  EXPECT_EQ(device.launches[1].name, "matmul_few_rows_nvfp4_packed_bf16_8");  // of decoded a, too
}

TEST_F(CudaMatmul, nothing_to_do_launches_nothing) {
  a_view.rows = d_view.rows = 0;
  call();
  EXPECT_TRUE(device.launches.empty());
}

TEST_F(CudaMatmul, by_a_plan_that_was_kept_launches_the_same) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  const MatmulInput input(a_view);
  const MatmulWeights b_weights(weights);
  const MatmulOutput output(d_view);
  const MatmulCall made{.a = input, .b = b_weights, .d = output};
  const Plan plan = plan_matmul(DeviceFacts(device), made);
  call();
  const auto eager = std::exchange(device.launches, {});
  const auto bytes = static_cast<std::size_t>(plan.workspace_bytes());
  run_matmul(device, plan, made, {work->bytes, bytes}, nullptr);
  ASSERT_EQ(device.launches.size(), eager.size());
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_EQ(device.launches[i].name, eager[i].name);
    EXPECT_EQ(device.launches[i].args, eager[i].args);
  }
  expect_error(ErrorCode::invalid_argument, "the workspace has", [&] {
    run_matmul(device, plan, made, {work->bytes, bytes - 1}, nullptr);
  });
}

// Of NVFP4 rows on Blackwell, whose kernel reads 32 bytes at once.
TEST_F(CudaMatmul, by_a_kept_plan_refuses_codes_that_lie_otherwise) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  test::FakeDevice blackwell{12, 0};
  const BlockShape shape{1, 192, Format::nvfp4};
  BlockTensorView row = weights;
  row.shape = shape;
  row.codes = {a->bytes, static_cast<std::size_t>(shape.code_bytes())};
  row.scales = {a->bytes + 32768, static_cast<std::size_t>(shape.scale_bytes())};
  d_view.rows = 1;
  MatmulInput input(row);
  const MatmulWeights b_weights(weights);
  const MatmulOutput output(d_view);
  const MatmulCall made{.a = input, .b = b_weights, .d = output};
  const Plan plan = plan_matmul(DeviceFacts(blackwell), made);
  const std::span<std::uint8_t> workspace{work->bytes,
                                          static_cast<std::size_t>(plan.workspace_bytes())};
  run_matmul(blackwell, plan, made, workspace, nullptr);
  row.codes = {a->bytes + 16, row.codes.size()};
  input = row;
  expect_error(ErrorCode::invalid_argument, "multiples of 32 bytes",
               [&] { run_matmul(blackwell, plan, made, workspace, nullptr); });
}

TEST_F(CudaMatmul, refuses_what_it_does_not_offer) {
  a_view.dtype = DType::f32;
  expect_error(ErrorCode::unsupported, "round it to BF16", [&] { call(); });
  a_view.dtype = DType::bf16;
  weights.shape.format = Format::mxint8;
  expect_error(ErrorCode::unsupported, "MXFP4, NVFP4 and MXFP8", [&] { call(); });
  weights.shape.format = Format::nvfp4;
  a_view.cols = weights.shape.cols = 0;
  expect_error(ErrorCode::unsupported, "k is 0", [&] { call(); });
  a_view.cols = weights.shape.cols = 192;
  less = 1;
  expect_error(ErrorCode::invalid_argument, "the workspace has", [&] { call(); });
  less = 0;
  off = 64;
  expect_error(ErrorCode::invalid_argument, "no multiple of 256", [&] { call(); });
  off = 0;
  device.host_only = a->bytes;
  expect_error(ErrorCode::invalid_argument, "does not have the memory of a", [&] { call(); });
  device.host_only = weights.global_scale.device_pointer();
  expect_error(ErrorCode::invalid_argument,
               "does not have the memory of the global scale of the weights", [&] { call(); });
  device.host_only = nullptr;
  d_view.data = b->bytes;
  expect_error(ErrorCode::invalid_argument, "overlap", [&] { call(); });
}

}  // namespace
}  // namespace microscale::cuda
