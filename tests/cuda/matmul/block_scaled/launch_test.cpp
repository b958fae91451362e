#include "cuda/matmul/block_scaled/launch.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "cuda/matmul/block_scaled/plan.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

using block_scaled::MatmulBlockScaledArgs;

class BlockScaledProductCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_names("sm_120f").empty()) GTEST_SKIP() << "built without nvcc";
  }
  BlockScaledProduct product(Format a, Format b, std::int64_t m, std::int64_t n, std::int64_t k) {
    const std::uint8_t* bytes = memory_->bytes;
    BlockScaledProduct p;
    p.a = {a, Layout::row_major, bytes, bytes + 256};
    p.b = {b, Layout::tiled_128x4, bytes + 512, bytes + 1024};
    p.n = n;
    p.k = k;
    p.rows = {m, 1, nullptr, 0};
    p.output.d = memory_->bytes + 2048;
    p.output.d_stride = n;
    p.output.d_matrix = m * n;
    return p;
  }
  const test::FakeDevice::Seen& launched(const BlockScaledProduct& p) {
    device_.launches.clear();
    block_scaled_product(device_, p, "matmul", nullptr);
    EXPECT_EQ(device_.launches.size(), 1u);
    return device_.launches.at(0);
  }
  std::unique_ptr<test::Aligned> memory_ = std::make_unique<test::Aligned>();
  test::FakeDevice device_{12, 0};
};

TEST_F(BlockScaledProductCalls, name_the_kernel_of_the_formats_and_give_it_a_block_a_tile) {
  const auto& seen = launched(product(Format::nvfp4, Format::nvfp4, 129, 300, 512));
  EXPECT_EQ(seen.name, "matmul_block_scaled_nvfp4_nvfp4");
  EXPECT_EQ(seen.call.grid.x, 2u * 3);
  EXPECT_EQ(seen.call.grid.y, 1u);
  EXPECT_EQ(seen.call.threads, 128);
  EXPECT_EQ(seen.call.shared_bytes, 0);
  const auto args = seen.as<MatmulBlockScaledArgs>();
  EXPECT_EQ(args.row_tiles, 2);
  EXPECT_EQ(args.column_tiles, 3);
  EXPECT_EQ(args.matrix_row_tiles, 2);
  EXPECT_EQ(args.b_matrix, 300 * 256);
  EXPECT_EQ(args.b_scale_matrix, 384 * 32);  // whole tiles
  EXPECT_EQ(args.a_tiled, 0);
  EXPECT_EQ(args.b_tiled, 1);
}

TEST_F(BlockScaledProductCalls, count_the_tiles_of_a_batch_and_the_most_of_a_group) {
  BlockScaledProduct p = product(Format::mxfp4, Format::mxfp4, 130, 64, 64);
  p.rows.matrices = 5;
  EXPECT_EQ(launched(p).call.grid.x, 5u * 2);
  const std::int32_t offsets[6] = {};
  p.rows = {130, 5, offsets, 0};
  EXPECT_EQ(launched(p).call.grid.x, 5u);  // four of a row each, and the rest in one
  p.rows.m = 4 + 128 + 1;
  EXPECT_EQ(launched(p).call.grid.x, 6u);
  p.rows.m = 3;
  EXPECT_EQ(launched(p).call.grid.x, 3u);
  p.output.gated = 1;
  p.n = 65;
  EXPECT_EQ(launched(p).call.grid.x, 6u);  // 64 columns a tile
}

TEST_F(BlockScaledProductCalls, say_what_is_aligned) {
  const auto args_of = [&](Format format, std::int64_t k, std::int64_t stride) {
    BlockScaledProduct p = product(format, format, 3, 8, k);
    p.output.d_stride = stride;
    p.output.d_matrix = 3 * stride;
    return launched(p).as<MatmulBlockScaledArgs>();
  };
  const auto whole = args_of(Format::nvfp4, 64, 8);
  EXPECT_EQ(whole.wide, 1);
  EXPECT_EQ(whole.a_align, 4);
  EXPECT_EQ(whole.vectors, 1);
  const auto odd = args_of(Format::nvfp4, 48, 9);
  EXPECT_EQ(odd.wide, 0);
  EXPECT_EQ(odd.b_align, 1);
  EXPECT_EQ(odd.vectors, 0);
  const auto mx = args_of(Format::mxfp8_e5m2, 96, 12);
  EXPECT_EQ(mx.wide, 1);
  EXPECT_EQ(mx.a_align, 1);
  EXPECT_EQ(args_of(Format::mxfp4, 192, 12).a_align, 2);
  EXPECT_EQ(mx.vectors, 1);
  BlockScaledProduct p = product(Format::mxfp4, Format::mxfp4, 3, 8, 64);
  p.output.d = memory_->bytes + 2056;  // FP32: four are 16 bytes
  EXPECT_EQ(launched(p).as<MatmulBlockScaledArgs>().vectors, 0);
  p.output.d_type = static_cast<std::int32_t>(DType::bf16);
  EXPECT_EQ(launched(p).as<MatmulBlockScaledArgs>().vectors, 1);
}

TEST_F(BlockScaledProductCalls, share_k_out_where_tiles_are_few_and_k_is_long) {
  // FP4 has 128 elements a stage, FP8 64.
  const auto& seen = launched(product(Format::nvfp4, Format::nvfp4, 129, 300, 4096));
  EXPECT_EQ(seen.name, "matmul_block_scaled_split_nvfp4_nvfp4");
  EXPECT_EQ(seen.call.grid.x, 4u * 2 * 3);
  const auto name = [&](Format format, std::int64_t m, std::int64_t n, std::int64_t k) {
    return launched(product(format, format, m, n, k)).name;
  };
  EXPECT_EQ(name(Format::nvfp4, 1, 1, 31 * 128), "matmul_block_scaled_nvfp4_nvfp4");
  EXPECT_EQ(name(Format::mxfp8_e4m3, 1, 1, 2048),
            "matmul_block_scaled_split_mxfp8_e4m3_mxfp8_e4m3");
  EXPECT_EQ(name(Format::mxfp4, 128, 84 * 128, 8192), "matmul_block_scaled_split_mxfp4_mxfp4");
  EXPECT_EQ(name(Format::mxfp4, 128, 85 * 128, 8192), "matmul_block_scaled_mxfp4_mxfp4");
  BlockScaledProduct p = product(Format::mxfp4, Format::mxfp4, 5, 5, 8192);
  const std::int32_t offsets[2] = {};
  p.rows.expert_rows = offsets;
  EXPECT_EQ(launched(p).name, "matmul_block_scaled_mxfp4_mxfp4");
}

TEST_F(BlockScaledProductCalls, give_each_part_of_k_whole_stages) {
  for (const int all : {1, 3, 4, 33, 63, 1 << 26}) {
    EXPECT_EQ(block_scaled::first_stage(all, 0, 4), 0);
    EXPECT_EQ(block_scaled::first_stage(all, 4, 4), all);
    for (int part = 0; part < 4; ++part) {
      const int stages =
          block_scaled::first_stage(all, part + 1, 4) - block_scaled::first_stage(all, part, 4);
      EXPECT_GE(stages, all / 4) << all;
      EXPECT_LE(stages, (all + 3) / 4) << all;
    }
  }
}

TEST_F(BlockScaledProductCalls, launch_nothing_for_an_empty_d) {
  for (const auto& [m, n] : {std::pair{0, 5}, {5, 0}})
    block_scaled_product(device_, product(Format::nvfp4, Format::nvfp4, m, n, 64), "matmul",
                         nullptr);
  BlockScaledProduct p = product(Format::nvfp4, Format::nvfp4, 5, 5, 64);
  p.rows.matrices = 0;
  block_scaled_product(device_, p, "matmul", nullptr);
  EXPECT_TRUE(device_.launches.empty());
}

TEST_F(BlockScaledProductCalls, are_refused_where_there_is_no_kernel) {
  const std::int64_t many = std::int64_t{1} << 40;
  test::expect_error(ErrorCode::unsupported, "make it several products", [&] {
    block_scaled_product(device_, product(Format::nvfp4, Format::nvfp4, many, 1, 64), "matmul",
                         nullptr);
  });
  test::expect_error(ErrorCode::unsupported, "matmul_block_scaled_nvfp4_mxfp4", [&] {
    block_scaled_product(device_, product(Format::nvfp4, Format::mxfp4, 1, 1, 64), "matmul",
                         nullptr);
  });
  test::FakeDevice hopper(9, 0);
  test::expect_error(ErrorCode::unsupported, "sm_90a", [&] {
    block_scaled_product(hopper, product(Format::nvfp4, Format::nvfp4, 1, 1, 64), "matmul",
                         nullptr);
  });
}

TEST_F(BlockScaledProductCalls, are_offered_for_what_has_a_kernel) {
  int offered = 0;
  for (const FormatInfo& a : all_formats())
    for (const FormatInfo& b : all_formats()) {
      const bool has = has_kernel("sm_120f", block_scaled_kernel(a.format, b.format));
      EXPECT_EQ(block_scaled_pair_offered(a.format, b.format), has) << a.name << " x " << b.name;
      EXPECT_EQ(has_kernel("sm_120f", block_scaled_kernel(a.format, b.format, true)), has);
      offered += has;
    }
  EXPECT_EQ(offered, 7);
}

}  // namespace
}  // namespace microscale::cuda
