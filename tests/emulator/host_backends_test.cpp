// Pointers to a GPU's memory whose views say Memory::host, as they do by default: operations on the
// CPU refuse them instead of reading them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/device/environment.hpp"
#include "device_bytes.hpp"
#include "emulator/device.hpp"
#include "microscale/attention.hpp"
#include "microscale/container.hpp"
#include "microscale/error.hpp"
#include "microscale/fused.hpp"
#include "microscale/grouped.hpp"
#include "microscale/kv_cache.hpp"
#include "microscale/matmul.hpp"
#include "microscale/quantize.hpp"
#include "support/matrices.hpp"

namespace microscale::emulator {
namespace {

class HostBackends : public ::testing::Test {
 protected:
  template <class Call>
  void expect_refused(const char* operand, Call&& call) {
    for (Backend backend : available_backends()) try {
        call(Context{.backend = backend});
        ADD_FAILURE() << operand << ": no error of " << to_string(backend);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_NE(std::string(error.what())
                      .find(std::string(operand) + " is in device memory, but its view says "
                                                   "Memory::host"),
                  std::string::npos)
            << error.what();
      }
  }
  /// A pointer that no CPU may follow.
  template <class T>
  T* there() {
    return reinterpret_cast<T*>(memory_.data());
  }
  std::span<std::uint8_t> there(std::size_t bytes) { return {memory_.data(), bytes}; }

  EmulatorDevice gpu_{9, 0};
  cuda::DeviceInForce in_force_{gpu_};
  cuda::DeviceBytes memory_{gpu_, 1 << 16};
  test::Matrix x_ = test::gaussian(DType::f32, 4, 64);
  BlockTensor blocks_ = quantize({.input = x_.view()});
};

TEST_F(HostBackends, refuse_inputs_and_outputs_of_a_gpu) {
  const TensorView input{there<float>(), DType::f32, 4, 64, 64};
  expect_refused("the input", [&](const Context& context) {
    quantize_into({.input = input}, blocks_.codes(), blocks_.scales(), context);
  });
  expect_refused("the output", [&](const Context& context) {
    quantize_into({.input = x_.view()}, there(128), blocks_.scales(), context);
  });
  expect_refused("the input", [&](const Context& context) { abs_max(input, context); });
  BlockTensorView scales = blocks_.view();
  scales.scales = there(scales.scales.size());
  expect_refused("the block tensor",
                 [&](const Context& context) { dequantize(scales, x_.mutable_view(), context); });
  expect_refused("the output", [&](const Context& context) {
    repack_scales(blocks_.view(), Layout::row_major, there(blocks_.scales().size()), context);
  });
  expect_refused("the output", [&](const Context& context) {
    repack_to_containers({.input = blocks_.codes(), .output = there(256)}, context);
  });
  const QuantizedOutput output{
      .format = Format::mxfp4, .codes = blocks_.codes(), .scales = blocks_.scales()};
  expect_refused("up", [&](const Context& context) {
    silu_mul_quantize_into({.gate = x_.view(), .up = input, .output = output}, context);
  });
  expect_refused("the table of experts", [&](const Context& context) {
    grouped_quantize_into({.input = x_.view(),
                           .groups = {there<std::int32_t>(), OffsetType::i32, 1},
                           .format = Format::mxfp4},
                          blocks_.codes(), blocks_.scales(), context);
  });
}

TEST_F(HostBackends, refuse_operands_of_products_and_of_attention) {
  test::Matrix d(DType::f32, 4, 4);
  expect_refused("a", [&](const Context& context) {
    matmul({.a = TensorView{there<float>(), DType::f32, 4, 64, 64},
            .b = blocks_.view(),
            .d = d.mutable_view()},
           context);
  });
  expect_refused("d", [&](const Context& context) {
    matmul({.a = x_.view(),
            .b = blocks_.view(),
            .d = MutableTensorView{there<float>(), DType::f32, 4, 4, 4}},
           context);
  });
  std::vector<float> heads(4 * 64);
  const HeadsView q{
      .data = heads.data(), .dtype = DType::f32, .batch = 1, .tokens = 4, .heads = 1, .d = 64};
  const MutableHeadsView output{
      .data = heads.data(), .dtype = DType::f32, .batch = 1, .tokens = 4, .heads = 1, .d = 64};
  HeadsView k = q;
  k.data = there<float>();
  expect_refused("k", [&](const Context& context) {
    attention({.q = q, .k = k, .v = q, .output = output}, context);
  });
  KvCache cache;
  cache.lengths = there<std::int32_t>();
  expect_refused("the cache", [&](const Context& context) {
    append_kv({.cache = cache, .k = q, .v = q}, context);
  });
}

TEST_F(HostBackends, read_what_is_the_hosts) {
  void* const pinned = gpu_.allocate_host(4 * 64 * 4);
  std::copy(x_.bytes.begin(), x_.bytes.end(), static_cast<std::uint8_t*>(pinned));
  const BlockTensor same = quantize({.input = {pinned, DType::f32, 4, 64, 64}});
  EXPECT_TRUE(std::ranges::equal(same.codes(), std::as_const(blocks_).codes()));
  gpu_.release_host(pinned);
}

}  // namespace
}  // namespace microscale::emulator
