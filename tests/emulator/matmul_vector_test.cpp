// One row times a matrix, both NVFP4, as Blackwell's kernels compute it, executed by the emulator
// on both architectures: the bytes of the same sums in the same order on a CPU, and near the exact
// ones.
#include "cuda/matmul/vector/plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "cuda/device/kernels.hpp"
#include "emulator/device.hpp"
#include "support/block_scaled_products.hpp"
#include "support/executed_kernels.hpp"

namespace microscale::emulator {
namespace {

using test::Matrix, test::ProductCase, test::random_blocks;

class VectorProducts : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (cuda::kernel_names("sm_120f").empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
    device().options = {.instruction_budget = 1'000'000'000};
  }
  /// One an architecture: reading its kernels takes longer than running them.
  static EmulatorDevice& device() {
    static std::map<int, std::unique_ptr<EmulatorDevice>> devices;
    auto& made = devices[GetParam()];
    if (!made) made = std::make_unique<EmulatorDevice>(GetParam(), 0);
    return *made;
  }
  static Matrix run(const ProductCase& c) {
    return test::run_block_scaled(device(), c, [](cuda::Device& gpu, const cuda::Product& product) {
      cuda::vector::run(gpu, cuda::vector::plan_of(product), product, nullptr);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Architectures, VectorProducts, ::testing::Values(10, 12),
                         [](const auto& tested) {
                           return "sm_" + std::to_string(tested.param) + "0f";
                         });

ProductCase random_case(std::int64_t n, std::int64_t k, std::int64_t matrices = 1,
                        unsigned seed = 1) {
  ProductCase c{.a = random_blocks(Format::nvfp4, matrices, k, Layout::row_major, seed),
                .b = random_blocks(Format::nvfp4, n * matrices, k, Layout::row_major, seed + 1)};
  c.n = n;
  c.matrices = matrices;
  return c;
}

/// Codes and scales of a row as numbers.
struct Row {
  std::vector<float> codes, scales;
  Row(const BlockTensor& tensor, std::int64_t row) {
    constexpr float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (std::int64_t i = 0; i < tensor.shape().cols; ++i) {
      const std::uint32_t code = test::code_at(tensor, row, i);
      codes.push_back(code < 8 ? values[code] : -values[code - 8]);
    }
    for (std::int64_t i = 0; i < tensor.shape().blocks_per_line(); ++i) {
      const auto byte = static_cast<int>(test::scale_at(tensor, row, i));
      scales.push_back(byte == 0x7F ? std::nanf("")
                       : byte < 8   ? std::ldexp(static_cast<float>(byte), -9)
                                    : std::ldexp(static_cast<float>(8 + byte % 8), byte / 8 - 10));
    }
  }
};

/// The kernel's sum: blocks exactly, a lane's in FP32 in order, the lanes' in pairs.
float sum_in_order(const Row& a, const Row& b) {
  const std::size_t blocks = a.scales.size();
  float lanes[32] = {};
  for (std::size_t block = 0; block < blocks; ++block) {
    float of_block = 0;  // exact
    for (std::size_t i = 16 * block; i < 16 * block + 16; ++i) of_block += a.codes[i] * b.codes[i];
    float& sum = lanes[block / 4 % 32];
    sum = std::fma(of_block, a.scales[block] * b.scales[block], sum);
  }
  for (int apart = 16; apart > 0; apart /= 2)
    for (int lane = 0; lane < apart; ++lane) lanes[lane] += lanes[lane + apart];
  return lanes[0];
}

void expect_in_order(const Matrix& d, const ProductCase& c) {
  const float factor = c.a.global_scale * c.b.global_scale * c.alpha;
  int failures = 0;
  for (std::int64_t matrix = 0; matrix < c.matrices; ++matrix) {
    const Row a(c.a, matrix);
    for (std::int64_t col = 0; col < c.n; ++col) {
      const std::int64_t line = matrix * c.n + col;
      const Row b(c.b, line);
      float wanted = sum_in_order(a, b);
      wanted = c.bias.empty() ? wanted * factor
                              : std::fma(wanted, factor, c.bias[static_cast<std::size_t>(line)]);
      double exact = 0, magnitude = 0;
      for (std::size_t i = 0; i < a.codes.size(); ++i) {
        const double product =
            static_cast<double>(a.codes[i]) * a.scales[i / 16] * b.codes[i] * b.scales[i / 16];
        exact += product;
        magnitude += std::fabs(product);
      }
      // A term takes part in k / 512 additions of its lane at most, and in five of lanes.
      const double roundings = static_cast<double>(c.k() / 512 + 4 + 5 + 3);
      const double bias = c.bias.empty() ? 0 : c.bias[static_cast<std::size_t>(line)];
      const double far = std::fabs(static_cast<double>(wanted) - (exact * factor + bias));
      const double allowed =
          0x1p-24 * (roundings * magnitude * std::fabs(factor) + std::fabs(bias));
      Matrix rounded(c.d_type, 1, 1);
      rounded.set(0, 0, wanted);
      if (d.at(matrix, col) != rounded.at(0, 0) || !(far <= allowed)) {
        if (++failures > 4) return;
        ADD_FAILURE() << "matrix " << matrix << ", column " << col << ": " << d.at(matrix, col)
                      << ", in order " << wanted << ", exactly " << exact * factor + bias;
      }
    }
  }
}

TEST_P(VectorProducts, are_the_sums_in_order_for_every_kernel) {
  for (const std::int64_t k : {2048, 7168, 16384, 64, 4160}) {
    SCOPED_TRACE(std::string_view(cuda::vector::kernel_of(k).name));
    const ProductCase c = random_case(40, k);
    expect_in_order(run(c), c);
  }
  EXPECT_TRUE(executed_all(device(), architecture_of(GetParam()), {"matmul_vector_"}));
}

TEST_P(VectorProducts, take_batches_both_layouts_biases_and_every_type) {
  for (const Layout a_layout : {Layout::row_major, Layout::tiled_128x4})
    for (const Layout b_layout : {Layout::row_major, Layout::tiled_128x4})
      for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
        ProductCase c = random_case(131, 320, 3, 5);
        c.a_layout = a_layout;
        c.b_layout = b_layout;
        c.d_type = type;
        c.alpha = 0.5f;
        for (int i = 0; i < 3 * 131; ++i) c.bias.push_back(0.01f * static_cast<float>(i % 37));
        expect_in_order(run(c), c);
      }
}

TEST_P(VectorProducts, take_the_largest_and_smallest_scales) {
  ProductCase c = random_case(9, 2048, 1, 7);
  std::fill(c.a.scales().begin(), c.a.scales().end(), 0x7E);  // 448: its square leaves FP16
  std::fill(c.b.scales().begin(), c.b.scales().end(), 0x7E);
  std::fill(c.a.codes().begin(), c.a.codes().end(), 0x77);  // 6 by 6, sixteen times
  std::fill(c.b.codes().begin(), c.b.codes().end(), 0x77);
  expect_in_order(run(c), c);
  for (std::uint8_t& scale : c.a.scales()) scale = scale % 3;
  c.b = random_blocks(Format::nvfp4, 9, 2048, Layout::row_major, 8, 0, 9);
  expect_in_order(run(c), c);
}

TEST_P(VectorProducts, have_a_nan_where_a_scale_is_one) {
  ProductCase c = random_case(5, 128, 1, 9);
  c.b.scales()[2 * 8 + 3] = 0x7F;
  const Matrix d = run(c);
  for (int col = 0; col < 5; ++col) EXPECT_EQ(std::isnan(d.at(0, col)), col == 2);
}

TEST_P(VectorProducts, read_whole_sectors_of_codes) {
  ProductCase c = random_case(128, 16384, 1, 11);
  c.b_layout = Layout::tiled_128x4;
  device().options.statistics = true;
  run(c);
  int wide = 0;
  for (const InstructionCount& each : device().last_report.instructions) {
    if (each.warps == 0 || each.sample.bytes != 32) continue;
    ++wide;
    EXPECT_EQ(each.sectors, each.ideal_sectors) << each.opcode << ", line " << each.ptx_line;
  }
  EXPECT_EQ(wide, 10);  // of a and four rows of b, in front of the loop and in it
}

}  // namespace
}  // namespace microscale::emulator
