#include "cuda/matmul/vector/launch.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "cuda/matmul/vector/plan.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

class VectorProductCalls : public ::testing::Test {
 protected:
  BlockScaledProduct product(std::int64_t n, std::int64_t k) {
    std::uint8_t* bytes = memory_->bytes;
    BlockScaledProduct p;
    p.a = {Format::nvfp4, Layout::row_major, bytes, bytes + 8192};
    p.b = {Format::nvfp4, Layout::tiled_128x4, bytes + 16384, bytes + 32768};
    p.n = n;
    p.k = k;
    p.rows = {1, 1, nullptr, 0};
    p.output.d = bytes + 49152;
    p.output.d_stride = p.output.d_matrix = n;
    return p;
  }
  std::unique_ptr<test::Aligned> memory_ = std::make_unique<test::Aligned>();
};

TEST_F(VectorProductCalls, name_a_kernel_for_the_k_it_is_made_for) {
  EXPECT_EQ(vector_kernel(7168), "matmul_vector_nvfp4_7168");
  EXPECT_EQ(vector_kernel(4096), "matmul_vector_nvfp4_any");
  if (kernel_names("sm_120f").empty()) GTEST_SKIP() << "built without nvcc";
  for (const std::int64_t k : {64, 2048, 7168, 16384})
    for (const char* architecture : {"sm_100f", "sm_120f"})
      EXPECT_TRUE(has_kernel(architecture, vector_kernel(k))) << architecture << ' ' << k;
}

TEST_F(VectorProductCalls, give_a_warp_four_rows_and_a_matrix_a_row_of_blocks) {
  if (kernel_names("sm_120f").empty()) GTEST_SKIP() << "built without nvcc";
  test::FakeDevice device(10, 3);
  BlockScaledProduct p = product(7168, 2048);
  p.rows.matrices = 4;
  vector_product(device, p, "matmul", nullptr);
  ASSERT_EQ(device.launches.size(), 1u);
  const auto& seen = device.launches[0];
  EXPECT_EQ(seen.name, "matmul_vector_nvfp4_2048");
  EXPECT_EQ(seen.call.grid.x, 7168u / 16);
  EXPECT_EQ(seen.call.grid.y, 4u);
  EXPECT_EQ(seen.call.threads, 128);
  const auto args = seen.as<vector_rows::MatmulVectorArgs>();
  EXPECT_EQ(args.a_scale_matrix, 128);
  EXPECT_EQ(args.b_scale_matrix, 7168 * 128);
  p.n = 1;
  vector_product(device, p, "matmul", nullptr);
  EXPECT_EQ(device.launches[1].call.grid.x, 8u);  // a tile of 128 rows
  p.n = 0;
  vector_product(device, p, "matmul", nullptr);
  EXPECT_EQ(device.launches.size(), 2u);
}

TEST_F(VectorProductCalls, are_offered_for_one_row_of_nvfp4) {
  EXPECT_TRUE(vector_product_offered(product(5, 128)));
  EXPECT_FALSE(vector_product_offered(product(5, 96)));
  const auto refused = [&](auto&& change) {
    BlockScaledProduct p = product(5, 128);
    change(p);
    return !vector_product_offered(p);
  };
  const std::int32_t offsets[2] = {};
  EXPECT_TRUE(refused([](BlockScaledProduct& p) { p.rows.m = 2; }));
  EXPECT_TRUE(refused([](BlockScaledProduct& p) { p.rows.matrices = 65536; }));
  EXPECT_TRUE(refused([&](BlockScaledProduct& p) { p.rows.expert_rows = offsets; }));
  EXPECT_TRUE(refused([](BlockScaledProduct& p) { p.output.gated = 1; }));
  EXPECT_TRUE(refused([](BlockScaledProduct& p) { p.a.format = Format::mxfp4; }));
  EXPECT_TRUE(refused([](BlockScaledProduct& p) { p.b.format = Format::mxfp4; }));
  EXPECT_TRUE(refused([](BlockScaledProduct& p) { p.b.codes += 16; }));
  EXPECT_TRUE(refused([](BlockScaledProduct& p) { p.a.codes += 16; }));
}

TEST_F(VectorProductCalls, are_refused_where_there_is_no_kernel) {
  test::FakeDevice hopper(9, 0);
  test::expect_error(ErrorCode::unsupported, "matmul_vector_nvfp4_any",
                     [&] { vector_product(hopper, product(5, 128), "matmul", nullptr); });
}

}  // namespace
}  // namespace microscale::cuda
