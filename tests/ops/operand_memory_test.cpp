#include "ops/operand_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "microscale/container.hpp"
#include "microscale/error.hpp"
#include "microscale/fused.hpp"
#include "microscale/grouped.hpp"
#include "microscale/kv_cache.hpp"
#include "microscale/matmul_plan.hpp"
#include "microscale/quantize.hpp"
#include "support/matrices.hpp"

namespace microscale {
namespace {

constexpr auto host = Memory::host, device = Memory::device;

std::string refusal(Backend backend, std::initializer_list<OperandMemory> operands) {
  try {
    runs_on_device("op", {.backend = backend}, operands);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "no error";
}

TEST(OperandMemory, chooses_the_backend_where_that_is_automatic) {
  EXPECT_FALSE(runs_on_device("op", {}, {{"a", host}, {"b", host}}));
  EXPECT_TRUE(runs_on_device("op", {}, {{"a", device}, {"b", device}}));
  EXPECT_FALSE(runs_on_device("op", {}, {}));
}

TEST(OperandMemory, goes_with_a_backend_that_reads_it) {
  EXPECT_TRUE(runs_on_device("op", {.backend = Backend::cuda}, {{"a", device}}));
  for (const Backend backend : {Backend::reference, Backend::avx2, Backend::avx512, Backend::amx})
    EXPECT_FALSE(runs_on_device("op", {.backend = backend}, {{"a", host}}));
}

TEST(OperandMemory, is_refused_where_the_backend_does_not_read_it) {
  EXPECT_EQ(refusal(Backend::avx2, {{"a", host}, {"b", device}}),
            "op: b is in device memory (Memory::device), which backend avx2 does not read; choose "
            "Backend::cuda, or copy it to the host");
  EXPECT_EQ(refusal(Backend::cuda, {{"a", device}, {"b", host}}),
            "op: b is in host memory (Memory::host), which backend cuda does not read; copy it to "
            "the device and set `memory` of its view to Memory::device");
  EXPECT_EQ(refusal(Backend::automatic, {{"a", device}, {"b", host}}),
            "op: b is in host memory, but a in device memory; copy one of them, or set `memory` of "
            "its view to where it is");
}

TEST(OperandMemory, of_a_device_is_refused_by_operations_of_the_host) {
  for (const Backend backend : {Backend::automatic, Backend::cuda}) try {
      check_runs_on_host("op", {.backend = backend}, {{"a", device}});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find("op: backend cuda has no such operation"),
                std::string::npos);
    }
  EXPECT_NO_THROW(check_runs_on_host("op", {}, {{"a", host}}));
}

// An address that nobody may read: a call that did would end the test program.
TEST(OperandMemory, of_a_device_is_never_read_by_a_host) {
  const auto* nowhere = reinterpret_cast<const void*>(std::uintptr_t{4096});
  const TensorView there = on_device(TensorView{nowhere, DType::f32, 4, 64, 64});
  const BlockShape shape{4, 64, Format::nvfp4};
  BlockTensor output(shape);
  test::Matrix values(DType::f32, 4, 64);
  const BlockTensorView blocks =
      on_device(BlockTensorView{.shape = shape,
                                .codes = {static_cast<const std::uint8_t*>(nowhere), 128},
                                .scales = {static_cast<const std::uint8_t*>(nowhere), 16}});
  for (const Backend backend : available_backends()) {
    const Context context{.backend = backend};
    EXPECT_THROW(quantize_into({.input = there, .format = Format::nvfp4}, output.codes(),
                               output.scales(), context),
                 Error);
    EXPECT_THROW(quantize({.input = there, .format = Format::nvfp4}, context), Error);
    EXPECT_THROW(abs_max(there, context), Error);
    EXPECT_THROW(dequantize(blocks, values.mutable_view(), context), Error);
    EXPECT_THROW(repack_scales(blocks, Layout::tiled_128x4, output.scales(), context), Error);
    const std::int32_t offsets[] = {0, 4};
    EXPECT_THROW(
        grouped_quantize_into(
            {.input = there, .groups = {offsets, OffsetType::i32, 1}, .global_scale = 1.0f},
            output.codes(), output.scales(), context),
        Error);
    const QuantizedOutput here{
        .global_scale = 1.0f, .codes = output.codes(), .scales = output.scales()};
    EXPECT_THROW(silu_mul_quantize_into({there, there, here}, context), Error);
    EXPECT_THROW(rms_norm_quantize_into({.input = there, .output = here}, context), Error);
    EXPECT_THROW(hadamard_quantize_into({.input = there, .output = here}, context), Error);
    EXPECT_THROW(pack_weights({.b = blocks}, {}, context), Error);
    EXPECT_THROW(
        repack_to_containers({.input = blocks.codes, .output = {}, .memory = device}, context),
        Error);
    EXPECT_THROW(matmul({.a = there, .b = output.view(), .d = values.mutable_view()}, context),
                 Error);
    EXPECT_THROW(append_kv({.cache = on_device(KvCache{})}, context), Error);
    EXPECT_THROW(repack_v_scales(on_device(KvCache{}), KvScaleLayout::linear, KvScaleLayout::trtllm,
                                 context),
                 Error);
    BlockTensorView scaled = output.view();
    scaled.global_scale = GlobalScale::on_device(static_cast<const float*>(nowhere));
    EXPECT_THROW(dequantize(scaled, values.mutable_view(), context), Error);
  }
}

// Options with strides of 0 give the bytes of the strides that they stand for.
TEST(OperandMemory, lies_side_by_side_where_a_row_stride_is_0) {
  const test::Matrix x = test::gaussian(DType::bf16, 8, 64);
  TensorView zero = x.view();
  zero.row_stride = 0;
  const BlockTensor wanted = quantize({.input = x.view()}), got = quantize({.input = zero});
  EXPECT_TRUE(std::ranges::equal(got.codes(), wanted.codes()));
  EXPECT_EQ(abs_max(zero).amax, abs_max(x.view()).amax);
  test::Matrix back(DType::f32, 8, 64), again(DType::f32, 8, 64), d(DType::f32, 8, 8),
      e(DType::f32, 8, 8);
  MutableTensorView out = again.mutable_view();
  out.row_stride = 0;
  dequantize(wanted.view(), back.mutable_view());
  dequantize(wanted.view(), out);
  EXPECT_EQ(again.bytes, back.bytes);
  matmul({.a = x.view(), .b = wanted.view(), .d = d.mutable_view()});
  MutableTensorView product = e.mutable_view();
  product.row_stride = 0;
  const MatmulOptions options{.a = zero, .b = wanted.view(), .d = product};
  matmul(options);
  EXPECT_EQ(e.bytes, d.bytes);
  std::fill(e.bytes.begin(), e.bytes.end(), std::uint8_t{0});
  MatmulPlan(options).run(MatmulOptions{.a = x.view(), .b = wanted.view(), .d = product});
  EXPECT_EQ(e.bytes, d.bytes);
}

}  // namespace
}  // namespace microscale
