// A layer of experts by counts on the emulator, as a caller has it: rows quantized in regions of
// 128x4 scales, multiplied, and quantized again on the way out.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/device/environment.hpp"
#include "cuda/device/kernel_images.hpp"
#include "microscale/grouped.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {
namespace {

constexpr std::int64_t experts = 4, capacity = 131, rows = experts * capacity + 1, n = 32, k = 64;
constexpr Layout tiled = Layout::tiled_128x4;
const std::vector<std::int32_t> counts{0, 131, 1, 20};
const std::vector<float> globals{0.5f, 0.01f, 0.02f, 0.03f};

/// Codes and scales of all rows, not written yet.
struct Rows {
  std::vector<std::uint8_t> codes, scales;
  explicit Rows(std::int64_t cols)
      : codes(static_cast<std::size_t>(rows * cols / 2), untouched),
        scales(static_cast<std::size_t>(
                   grouped_scale_bytes(rows, cols, experts, Format::nvfp4, tiled)),
               untouched) {}
};

ExpertRows groups(const void* at) { return {nullptr, OffsetType::i32, experts, at, capacity}; }

GroupedQuantizeOptions quantized(const TensorView& input, const void* counts_at,
                                 const GlobalScale& scales) {
  GroupedQuantizeOptions o{.input = input, .groups = groups(counts_at), .format = Format::nvfp4};
  o.numerics.scale_rule = ScaleRule::nearest;
  o.layout = tiled;
  o.global_scale = scales;
  return o;
}

std::vector<std::uint8_t> back(const std::span<std::uint8_t>& from) {
  std::vector<std::uint8_t> to(from.size());
  device().copy_to_host(to.data(), from.data(), static_cast<std::int64_t>(to.size()), nullptr);
  return to;
}

TEST(GroupedCounts, go_through_a_whole_layer) {
  if (cuda::kernel_images().empty())
    GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  const cuda::DeviceInForce in_force(device());
  Buffers memory;
  const auto span_of = [&](const std::vector<std::uint8_t>& bytes) {
    return std::span(memory.put(bytes), bytes.size());
  };
  const Matrix x = test::gaussian(DType::bf16, rows, k, 3, 1.0f);
  const Side b(test::random_blocks(Format::nvfp4, experts * n, k, Layout::row_major, 5));
  const void* const there = memory.put(counts);
  const auto scales = GlobalScale::per_expert(memory.put(globals), microscale::Memory::device),
             host_scales = GlobalScale::per_expert(globals.data());
  Context context{.backend = Backend::cuda};

  Rows a(k);
  const auto codes = span_of(a.codes), factors = span_of(a.scales);
  TensorView input = x.view();
  input.data = memory.put(x.bytes);
  input.memory = microscale::Memory::device;
  grouped_quantize_into(quantized(input, there, scales), codes, factors, context);
  grouped_quantize_into(quantized(x.view(), counts.data(), host_scales), a.codes, a.scales);
  EXPECT_EQ(back(codes), a.codes);
  EXPECT_EQ(back(factors), a.scales);

  const BlockShape a_shape{rows, k, Format::nvfp4, BlockAxis::cols, tiled};
  const BlockShape b_shape{n, k, Format::nvfp4};
  const BlockTensorView weights{b_shape,
                                {memory.put(b.blocks->codes()), b.blocks->codes().size()},
                                {memory.put(b.blocks->scales()), b.blocks->scales().size()},
                                scales,
                                microscale::Memory::device};
  GroupedMatmulOptions product{
      .a = BlockTensorView{a_shape, codes, factors, scales, microscale::Memory::device},
      .b = weights,
      .d = {}};
  product.groups = groups(there);
  const auto run = [&](const MatmulOutput& d) {
    product.d = d;
    const auto bytes = static_cast<std::size_t>(matmul_workspace_bytes(product, context));
    context.workspace = {static_cast<std::uint8_t*>(memory.raw(bytes)), bytes};
    grouped_matmul(product, context);
  };
  Matrix d(DType::f32, rows, n);
  std::fill(d.bytes.begin(), d.bytes.end(), untouched);
  const auto sums = span_of(d.bytes);
  run(MutableTensorView{sums.data(), DType::f32, rows, n, n, microscale::Memory::device});

  GroupedMatmulOptions host{
      .a = BlockTensorView{a_shape, a.codes, a.scales, host_scales},
      .b = BlockTensorView{b_shape, b.blocks->codes(), b.blocks->scales(), host_scales},
      .d = d.mutable_view()};
  host.groups = groups(counts.data());
  grouped_matmul(host, {.backend = Backend::reference});
  Matrix got(DType::f32, rows, n);
  got.bytes = back(sums);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t col = 0; col < n; ++col) {
      const bool owned = row / capacity < experts &&
                         row % capacity < counts[static_cast<std::size_t>(row / capacity)];
      const float wanted = d.at(row, col);
      ASSERT_NEAR(got.at(row, col), wanted, owned ? 1e-3 + 1e-3 * std::fabs(wanted) : 0) << row;
    }

  Rows out(n);
  const auto out_codes = span_of(out.codes), out_scales = span_of(out.scales);
  QuantizedOutput to{.format = Format::nvfp4, .layout = tiled};
  to.numerics.scale_rule = ScaleRule::nearest;
  to.global_scale = scales;
  to.memory = microscale::Memory::device;
  to.codes = out_codes;
  to.scales = out_scales;
  run(to);
  grouped_quantize_into(quantized(got.view(), counts.data(), host_scales), out.codes, out.scales);
  EXPECT_EQ(back(out_codes), out.codes);
  EXPECT_EQ(back(out_scales), out.scales);
}

}  // namespace
}  // namespace microscale::emulator
