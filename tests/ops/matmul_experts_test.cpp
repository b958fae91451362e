// gated_matmul and grouped_matmul on every backend of this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "microscale/grouped.hpp"
#include "microscale/matmul.hpp"
#include "support/products.hpp"

namespace microscale {
namespace {

using test::Matrix;
using test::Side;

double activation(Activation which, double x) {
  if (which == Activation::silu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Largest slope of either activation, a little above.
constexpr double steepest = 1.2;

TEST(GatedMatmul, both_activations_are_within_the_bound) {
  const std::int64_t m = 6, k = 160;
  for (Backend backend : test::host_backends()) {
    for (Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
      for (std::int64_t n : {1, 39, 70}) {
        const Side a(test::gaussian(DType::bf16, m, k, 1, format == Format::nvfp4 ? 0.05f : 0.01f));
        const Side gate(test::random_blocks(format, n, k, Layout::row_major, 2)),
            up(test::random_blocks(format, n, k, Layout::row_major, 3));
        const Matrix gate_bias = test::gaussian(DType::f32, 1, n, 4, 1.0f),
                     up_bias = test::gaussian(DType::bf16, 1, n, 5, 1.0f);
        for (Activation which : {Activation::silu, Activation::gelu_tanh}) {
          Matrix d(DType::f32, m, n);
          gated_matmul({.a = a.input(),
                        .gate = gate.blocks->view(),
                        .up = up.blocks->view(),
                        .d = d.mutable_view(),
                        .activation = which,
                        .alpha = 0.5f,
                        .gate_bias = gate_bias.view(),
                        .up_bias = up_bias.view()},
                       {.backend = backend});
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
              const test::Exact g = test::exact_at(a, gate, i, j, 0.5),
                                u = test::exact_at(a, up, i, j, 0.5);
              const double gb = gate_bias.at(0, j), ub = up_bias.at(0, j);
              const double eg = test::bound(g, k, backend, DType::f32, gb),
                           eu = test::bound(u, k, backend, DType::f32, ub);
              const double left = activation(which, g.value + gb), right = u.value + ub;
              const double allowed = steepest * eg * (std::fabs(right) + eu) +
                                     std::fabs(left) * eu + std::fabs(left * right) * 0x1p-16 +
                                     1e-16 * std::fabs(right);
              ASSERT_NEAR(d.at(i, j), left * right, allowed)
                  << to_string(backend) << ' ' << info(format).name << ' ' << i << ' ' << j;
            }
        }
      }
    }
  }
}

TEST(GatedMatmul, gates_at_both_ends) {
  Matrix a(DType::f32, 6, 32);
  const float gates[] = {1e30f, -1e30f, INFINITY, -INFINITY, NAN, -0.0f};
  for (std::int64_t i = 0; i < 6; ++i) a.set(i, 0, gates[i]);
  BlockTensor gate(BlockShape{1, 32, Format::mxfp4}), up(BlockShape{1, 32, Format::mxfp4});
  gate.codes()[0] = 0x02;  // 1 times a's first element, every other weight zero
  gate.scales()[0] = up.scales()[0] = 127;
  const Matrix one(DType::f32, 1, 1);
  Matrix bias(DType::f32, 1, 1);
  bias.set(0, 0, 2.0f);
  for (Backend backend : test::host_backends())
    for (Activation which : {Activation::silu, Activation::gelu_tanh}) {
      // up's weights are zero: an infinite or NaN row makes them NaN, as IEEE has it.
      Matrix d(DType::f32, 6, 1);
      gated_matmul({.a = a.view(),
                    .gate = gate.view(),
                    .up = up.view(),
                    .d = d.mutable_view(),
                    .activation = which,
                    .up_bias = bias.view()},
                   {.backend = backend});
      EXPECT_EQ(d.at(0, 0), 2e30f);
      EXPECT_NEAR(d.at(1, 0), 0.0f, 1e-15);
      for (std::int64_t i : {2, 3, 4}) EXPECT_TRUE(std::isnan(d.at(i, 0))) << i;
      EXPECT_EQ(d.at(5, 0), 0.0f);
    }
}

TEST(GatedMatmul, the_layout_of_either_matrix_changes_no_byte) {
  const std::int64_t m = 3, n = 300, k = 2048;  // tiled scales of up: more than any slack of memory
  const BlockTensor a = test::random_blocks(Format::nvfp4, m, k);
  for (Backend backend : test::host_backends()) {
    std::vector<Matrix> results;
    for (Layout gate_layout : {Layout::row_major, Layout::tiled_128x4})
      for (Layout up_layout : {Layout::row_major, Layout::tiled_128x4}) {
        const BlockTensor gate = test::random_blocks(Format::nvfp4, n, k, gate_layout, 2),
                          up = test::random_blocks(Format::nvfp4, n, k, up_layout, 3);
        results.emplace_back(DType::f32, m, n);
        gated_matmul({.a = a.view(),
                      .gate = gate.view(),
                      .up = up.view(),
                      .d = results.back().mutable_view()},
                     {.backend = backend, .threads = 2});
        EXPECT_EQ(results.back().bytes, results.front().bytes) << to_string(backend);
      }
  }
}

TEST(GatedMatmul, packed_pairs_threads_and_quantized_outputs_keep_the_bytes) {
  const std::int64_t m = 37, n = 192, k = 128;
  const BlockTensor a = test::random_blocks(Format::nvfp4, m, k, Layout::tiled_128x4, 1),
                    gate = test::random_blocks(Format::nvfp4, n, k, Layout::tiled_128x4, 2);
  BlockTensor up = test::random_blocks(Format::nvfp4, n, k, Layout::row_major, 3);
  up.global_scale = 0.2f;
  for (Backend backend : test::host_backends()) {
    Matrix d(DType::f32, m, n), e(DType::f32, m, n);
    GatedMatmulOptions options{
        .a = a.view(), .gate = gate.view(), .up = up.view(), .d = d.mutable_view()};
    gated_matmul(options, {.backend = backend, .threads = 1});
    const std::int64_t bytes = packed_weights_bytes({.b = gate.view(), .up = up.view()});
    std::unique_ptr<std::uint8_t, void (*)(void*)> memory(
        static_cast<std::uint8_t*>(std::aligned_alloc(64, static_cast<std::size_t>(bytes))),
        &std::free);
    options.gate = pack_weights({.b = gate.view(), .up = up.view()},
                                {memory.get(), static_cast<std::size_t>(bytes)});
    options.up = {};
    options.d = e.mutable_view();
    gated_matmul(options, {.backend = backend, .threads = 3});
    EXPECT_EQ(d.bytes, e.bytes);
    for (Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
      QuantizeOptions q{.input = d.view(), .format = Format::nvfp4, .layout = layout};
      q.global_scale = 0.5f;
      const BlockTensor wanted = quantize(q);
      BlockTensor got(wanted.shape());
      QuantizedOutput output{.format = Format::nvfp4, .layout = layout, .global_scale = 0.5f};
      output.codes = got.codes();
      output.scales = got.scales();
      options.d = output;
      gated_matmul(options, {.backend = backend, .threads = 2});
      EXPECT_TRUE(std::ranges::equal(got.codes(), wanted.codes()) &&
                  std::ranges::equal(got.scales(), wanted.scales()));
    }
  }
}

// Five experts, one of them empty, two rows before the first and one behind the last.
class GroupedMatmul : public ::testing::Test {
 protected:
  static constexpr std::int64_t experts = 5, rows = 150, n = 96, k = 96;
  std::vector<std::int32_t> offsets{2, 5, 5, 134, 141, 149};
  std::vector<float> a_globals{0.5f, 1.0f, 0.25f, 3.0f, 0.1f},
      b_globals{1.0f, 2.0f, 0.5f, 0.1f, 0.7f}, d_globals{0.5f, 0.25f, 0.75f, 1.0f, 0.3f}, weights;
  std::vector<BlockTensor> b;
  std::vector<std::uint8_t> codes, scales;
  Matrix bias = test::gaussian(DType::f32, experts, n, 7, 1.0f);
  Matrix dense = test::gaussian(DType::bf16, rows, k, 8, 1.0f);

  void SetUp() override {
    for (unsigned e = 0; e < experts; ++e) {
      b.push_back(test::random_blocks(Format::nvfp4, n, k, Layout::tiled_128x4, 30 + e));
      codes.insert(codes.end(), b[e].codes().begin(), b[e].codes().end());
      scales.insert(scales.end(), b[e].scales().begin(), b[e].scales().end());
    }
    for (std::int64_t r = 0; r < rows; ++r) weights.push_back(0.01f * static_cast<float>(r) - 0.5f);
  }
  BlockTensorView all_weights() const {
    return {b[0].shape(), codes, scales, GlobalScale::per_expert(b_globals.data())};
  }
  ExpertRows groups() const { return {offsets.data(), OffsetType::i32, experts}; }
  GroupedMatmulOptions options() {
    GroupedMatmulOptions o{.a = dense.view(), .b = all_weights(), .d = MutableTensorView{}};
    o.groups = groups();
    o.row_weights = weights.data();
    o.bias = bias.view();
    return o;
  }
};

TEST_F(GroupedMatmul, each_group_is_the_plain_product_of_its_expert) {
  for (Backend backend : test::host_backends()) {
    Matrix d(DType::f32, rows, n);
    std::fill(d.bytes.begin(), d.bytes.end(), std::uint8_t{0xA5});
    const float untouched = d.at(0, 0);
    GroupedMatmulOptions o = options();
    o.d = d.mutable_view();
    grouped_matmul(o, {.backend = backend, .threads = 3});
    for (std::size_t e = 0; e < experts; ++e) {
      const std::int64_t first = offsets[e], count = offsets[e + 1] - first;
      TensorView a = dense.view();
      a.data = dense.bytes.data() + first * k * 2;
      a.rows = count;
      BlockTensorView weight = b[e].view();
      weight.global_scale = b_globals[e];
      TensorView one_bias = bias.view();
      one_bias.data = bias.bytes.data() + e * n * 4;
      one_bias.rows = 1;
      const Matrix one =
          test::product(a, weight, count, n, {.backend = backend}, DType::f32, 1.0f, one_bias);
      for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t c = 0; c < n; ++c)
          ASSERT_EQ(d.at(first + r, c), one.at(r, c) * weights[static_cast<std::size_t>(first + r)])
              << to_string(backend) << " expert " << e << " row " << r;
    }
    for (std::int64_t r : {0, 1, 149})
      for (std::int64_t c = 0; c < n; ++c) ASSERT_EQ(d.at(r, c), untouched) << "nobody's row " << r;
  }
}

TEST_F(GroupedMatmul, quantized_inputs_and_outputs_lie_as_grouped_quantize_leaves_them) {
  for (Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
    for (Format format : {Format::nvfp4, Format::mxfp4}) {
      const std::int64_t code_bytes = BlockShape{rows, k, format}.code_bytes();
      std::vector<std::uint8_t> a_codes(static_cast<std::size_t>(code_bytes)),
          a_scales(static_cast<std::size_t>(grouped_scale_bytes(rows, k, experts, format, layout)));
      GroupedQuantizeOptions q{.input = dense.view(), .groups = groups(), .format = format};
      q.layout = layout;
      q.global_scale = GlobalScale::per_expert(a_globals.data());
      grouped_quantize_into(q, a_codes, a_scales);
      for (Backend backend : test::host_backends()) {
        GroupedMatmulOptions o = options();
        o.a = BlockTensorView{{rows, k, format, BlockAxis::cols, layout},
                              a_codes,
                              a_scales,
                              GlobalScale::per_expert(a_globals.data())};
        Matrix d(DType::f32, rows, n);
        o.d = d.mutable_view();
        grouped_matmul(o, {.backend = backend, .threads = 2});
        // Expert 2 on its own, its rows decoded.
        Matrix values(DType::f32, 129, k);
        for (std::int64_t r = 0; r < 129; ++r) {
          QuantizeOptions row{.input = {dense.bytes.data() + (5 + r) * k * 2, DType::bf16, 1, k, k},
                              .format = format};
          if (format == Format::nvfp4) row.global_scale = a_globals[2];
          const Matrix one = test::decoded(quantize(row).view());
          for (std::int64_t c = 0; c < k; ++c) values.set(r, c, one.at(0, c));
        }
        BlockTensorView weight = b[2].view();
        weight.global_scale = b_globals[2];
        const Matrix wanted =
            test::product(values.view(), weight, 129, n, {.backend = Backend::reference});
        for (std::int64_t r = 0; r < 129; ++r)
          for (std::int64_t c = 0; c < n; ++c)
            ASSERT_NEAR(
                d.at(5 + r, c),
                (wanted.at(r, c) + bias.at(2, c)) * weights[static_cast<std::size_t>(5 + r)], 2e-3)
                << to_string(backend) << ' ' << r << ' ' << c;

        GroupedQuantizeOptions dq{.input = d.view(), .groups = groups(), .format = format};
        dq.layout = layout;
        dq.global_scale = GlobalScale::per_expert(d_globals.data());
        std::vector<std::uint8_t> wanted_codes(static_cast<std::size_t>(rows * n / 2), 0xEE),
            wanted_scales(
                static_cast<std::size_t>(grouped_scale_bytes(rows, n, experts, format, layout)),
                0xEE);
        std::vector<std::uint8_t> d_codes = wanted_codes, d_scales = wanted_scales;
        grouped_quantize_into(dq, wanted_codes, wanted_scales);
        QuantizedOutput output{.format = format, .layout = layout};
        output.global_scale = GlobalScale::per_expert(d_globals.data());
        output.codes = d_codes;
        output.scales = d_scales;
        o.d = output;
        grouped_matmul(o, {.backend = backend, .threads = 2});
        EXPECT_EQ(d_codes, wanted_codes);
        EXPECT_EQ(d_scales, wanted_scales);
      }
    }
  }
}

TEST_F(GroupedMatmul, packed_experts_and_wide_offsets_change_no_byte) {
  const std::vector<std::int64_t> wide(offsets.begin(), offsets.end());
  const std::int64_t bytes = packed_weights_bytes({.b = all_weights(), .matrices = experts});
  std::unique_ptr<std::uint8_t, void (*)(void*)> memory(
      static_cast<std::uint8_t*>(std::aligned_alloc(64, static_cast<std::size_t>(bytes))),
      &std::free);
  const PackedWeights packed = pack_weights({.b = all_weights(), .matrices = experts},
                                            {memory.get(), static_cast<std::size_t>(bytes)});
  for (Backend backend : test::host_backends()) {
    Matrix d(DType::f16, rows, n), e(DType::f16, rows, n);
    GroupedMatmulOptions o = options();
    o.d = d.mutable_view();
    grouped_matmul(o, {.backend = backend, .threads = 1});
    o.d = e.mutable_view();
    o.b = packed;
    o.groups = {wide.data(), OffsetType::i64, experts};
    grouped_matmul(o, {.backend = backend, .threads = 4});
    EXPECT_EQ(d.bytes, e.bytes);
  }
}

// Each expert's rows moved to rows of its own, as many for all: the same bytes of every row, of
// codes and of scales, and nobody's untouched.
TEST_F(GroupedMatmul, counts_give_the_bytes_that_offsets_give) {
  constexpr std::int64_t capacity = 131, all = experts * capacity + 1;
  const std::vector<std::int64_t> counts{3, 0, 129, 7, 8};
  const ExpertRows masked{nullptr, OffsetType::i64, experts, counts.data(), capacity};
  // Copies what follows each other in `from`, `bytes` a row.
  const auto spread = [&](const std::uint8_t* from, std::uint8_t* to, std::int64_t bytes) {
    for (std::size_t e = 0; e < experts; ++e)
      std::memcpy(to + static_cast<std::int64_t>(e) * capacity * bytes, from + offsets[e] * bytes,
                  static_cast<std::size_t>(counts[e] * bytes));
  };
  const auto spread_scales = [&](const std::vector<std::uint8_t>& from,
                                 std::vector<std::uint8_t>& to, std::int64_t cols, Layout layout) {
    for (std::int64_t e = 0; e < experts; ++e)
      std::memcpy(to.data() + grouped_scale_offset(masked, e, cols, Format::nvfp4, layout),
                  from.data() + grouped_scale_offset(groups(), e, cols, Format::nvfp4, layout),
                  static_cast<std::size_t>(BlockShape{counts[static_cast<std::size_t>(e)], cols,
                                                      Format::nvfp4, BlockAxis::cols, layout}
                                               .scale_bytes()));
  };
  std::vector<float> spread_weights(all);
  spread(reinterpret_cast<const std::uint8_t*>(weights.data()),
         reinterpret_cast<std::uint8_t*>(spread_weights.data()), 4);
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
    const auto scale_bytes = [&](std::int64_t of, std::int64_t cols) {
      return static_cast<std::size_t>(
          grouped_scale_bytes(of, cols, experts, Format::nvfp4, layout));
    };
    std::vector<std::uint8_t> a_codes(rows * k / 2), a_scales(scale_bytes(rows, k)),
        m_codes(all * k / 2), m_scales(scale_bytes(all, k));
    GroupedQuantizeOptions q{.input = dense.view(), .groups = groups(), .format = Format::nvfp4};
    q.layout = layout;
    q.global_scale = GlobalScale::per_expert(a_globals.data());
    grouped_quantize_into(q, a_codes, a_scales);
    spread(a_codes.data(), m_codes.data(), k / 2);
    spread_scales(a_scales, m_scales, k, layout);
    for (Backend backend : test::host_backends()) {
      std::vector<std::uint8_t> codes_got(all * n / 2, 0xEE), scales_got(scale_bytes(all, n), 0xEE),
          codes_wanted = codes_got, scales_wanted = scales_got, d_codes(rows * n / 2),
          d_scales(scale_bytes(rows, n));
      const auto run = [&](bool counted, std::span<std::uint8_t> to_codes,
                           std::span<std::uint8_t> to_scales) {
        GroupedMatmulOptions o = options();
        const BlockShape shape{counted ? all : rows, k, Format::nvfp4, BlockAxis::cols, layout};
        const auto of_a = GlobalScale::per_expert(a_globals.data());
        o.a = counted ? BlockTensorView{shape, m_codes, m_scales, of_a}
                      : BlockTensorView{shape, a_codes, a_scales, of_a};
        o.groups = counted ? masked : groups();
        if (counted) o.row_weights = spread_weights.data();
        QuantizedOutput output{.format = Format::nvfp4, .layout = layout};
        output.global_scale = GlobalScale::per_expert(d_globals.data());
        output.codes = to_codes;
        output.scales = to_scales;
        o.d = output;
        grouped_matmul(o, {.backend = backend, .threads = 2});
      };
      run(true, codes_got, scales_got);
      run(false, d_codes, d_scales);
      spread(d_codes.data(), codes_wanted.data(), n / 2);
      spread_scales(d_scales, scales_wanted, n, layout);
      EXPECT_EQ(codes_got, codes_wanted) << to_string(backend);
      EXPECT_EQ(scales_got, scales_wanted) << to_string(backend);
    }
  }
}

TEST_F(GroupedMatmul, all_groups_may_be_empty) {
  std::fill(offsets.begin(), offsets.end(), 3);
  Matrix d(DType::f32, rows, n);
  GroupedMatmulOptions o = options();
  o.d = d.mutable_view();
  grouped_matmul(o);
  o.groups.experts = 0;
  o.b = BlockTensorView{b[0].shape(), {}, {}, 1.0f};
  o.bias = {};
  grouped_matmul(o);
  for (std::uint8_t byte : d.bytes) ASSERT_EQ(byte, 0);
}

}  // namespace
}  // namespace microscale
