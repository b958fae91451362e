// What a product of many rows tells the device, without one.
#include "cuda/matmul/in_registers/launch.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "cuda/matmul/expanded/launch.hpp"
#include "cuda/matmul/in_registers/plan.hpp"
#include "fake_device.hpp"

namespace microscale::cuda {
namespace {

ProductRows rows(std::int64_t m, std::int64_t matrices, const void* offsets = nullptr) {
  return {m, matrices, offsets, 0};
}

class CudaMatmulWide : public ::testing::Test {
 protected:
  CudaMatmulWide() {
    call.a = {.format = {}, .type = DType::bf16, .data = memory->bytes + 2, .stride = 2 * 320};
    call.b_format = Format::mxfp4;
    call.b = memory->bytes + 4096;
    call.n = 600;
    call.k = 320;
    call.rows = rows(100, 2);
    call.output.d = memory->bytes + 8192;
    call.output.d_stride = 600;
    call.output.d_matrix = 60000;
    call.output.d_type = static_cast<std::int32_t>(DType::bf16);
    call.workspace = memory->bytes + 16384;
  }
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }
  MatmulWideArgs product() {
    matmul_wide(device, "matmul", call, stream);
    EXPECT_EQ(device.launches.size(), 2u);
    return device.launches.back().as<MatmulWideArgs>();
  }
  test::FakeDevice device{9, 0};
  std::unique_ptr<test::Aligned> memory = std::make_unique<test::Aligned>();
  WideCall call;
  Stream stream = &call;
};

TEST_F(CudaMatmulWide, prepares_a_and_multiplies) {
  const MatmulWideArgs args = product();
  const auto& prepare = device.launches[0];
  EXPECT_EQ(prepare.name, "matmul_prepare_tiles_dense");
  EXPECT_EQ(prepare.call.threads, 256);
  EXPECT_EQ(prepare.call.grid.x, 1u);   // 320 elements of k, 1024 a block
  EXPECT_EQ(prepare.call.grid.y, 26u);  // 13 groups of eight rows, twice
  EXPECT_EQ(prepare.call.stream, stream);
  const auto prepared = prepare.as<PrepareTilesArgs>();
  EXPECT_EQ(prepared.a, call.a.data);
  EXPECT_EQ(prepared.a_stride, 640);
  EXPECT_EQ(prepared.tiles, call.workspace);
  EXPECT_FALSE(prepared.f16);

  const LaunchCall& launched = device.launches[1].call;
  EXPECT_EQ(device.launches[1].name, "matmul_wide_mxfp4_bf16_128x64");
  EXPECT_EQ(launched.threads, wide_threads);
  EXPECT_EQ(launched.grid.x, 20u);  // 5 x 2 tiles, twice: fewer than there are multiprocessors
  EXPECT_EQ(launched.shared_bytes, wide_shared({128, 64}, 544).bytes);
  EXPECT_LE(launched.shared_bytes, wide_shared_bytes);
  EXPECT_EQ(args.tiles, call.workspace);
  ASSERT_EQ(device.boxes.size(), 1u);
  const TensorBoxes& weights = device.boxes[0];  // tiles of 16 x 64, rows and k filled up
  EXPECT_EQ(weights.data, call.b);
  EXPECT_EQ(weights.element_bytes, 8);
  EXPECT_EQ(weights.size, (std::array<std::int64_t, 5>{68, 5, 38, 2}));
  EXPECT_EQ(weights.stride, (std::array<std::int64_t, 5>{8, 544, 5 * 544, 38 * 5 * 544}));
  EXPECT_EQ(weights.box, (std::array<int, 5>{68, 1, 8, 1}));
  EXPECT_FALSE(weights.swizzle_128);
  EXPECT_EQ(args.tiles_of_d, 20u);
  EXPECT_EQ(args.cut.tiles, 0u);
  EXPECT_FALSE(args.cut_by_kernel);
  EXPECT_FALSE(args.constant);
  EXPECT_TRUE(args.vectors);
  EXPECT_TRUE(args.partial);
  EXPECT_EQ(args.rows.m, 100);
}

TEST_F(CudaMatmulWide, keeps_sums_of_parts_of_k_behind_a) {
  call.k = 16384, call.rows = rows(40, 1);
  const MatmulWideArgs args = product();
  const WidePlan plan = wide_plan(600, 16384, false, 40, 1, false, 544, false, 132);
  ASSERT_EQ(plan.cut.blocks, 40u);  // eight ranges of each of five tiles
  EXPECT_EQ(args.cut.tiles, 5u);
  EXPECT_EQ(args.cut.blocks, 40u);
  EXPECT_EQ(args.cut.positions, 256u);
  EXPECT_EQ(device.launches[1].call.grid.x, 40u);
  const auto* begin = static_cast<const std::uint8_t*>(call.workspace);
  EXPECT_EQ(reinterpret_cast<const std::uint8_t*>(args.sums) - begin, 40 * 16384 * 2);
  const auto* flags = reinterpret_cast<const std::uint8_t*>(args.flags);
  EXPECT_EQ(flags - begin, 40 * 16384 * 2 + plan.sums_bytes());
  EXPECT_EQ((flags + plan.flag_bytes() - begin + 255) / 256 * 256,
            wide_workspace_bytes(device.info(), call));
  device.launches.clear();
  EXPECT_NE(product().ticket, args.ticket) << "that of another call would be taken for this one's";
}

// Blocks that prepare rows are kept from sharing multiprocessors where they are few.
TEST_F(CudaMatmulWide, spreads_few_blocks_and_pairs_ranges_in_clusters) {
  call.a.format = call.b_format = Format::nvfp4;
  call.b_is_plain = true;
  call.n = 7168, call.k = 2048;
  call.rows = {128, 1, nullptr, 0};
  EXPECT_TRUE(product().cut.paired);
  EXPECT_EQ(device.launches[0].name, "matmul_prepare_blocks_nvfp4");
  EXPECT_TRUE(device.launches[0].as<PrepareTilesArgs>().by_blocks);
  EXPECT_EQ(device.launches[0].call.shared_bytes, 100 << 10);
  EXPECT_EQ(device.launches[1].call.cluster, 2);
  EXPECT_EQ(device.launches[1].call.grid.x, 112u);  // two ranges of each of 56 tiles
  call.k = 4096;
  call.rows = {1024, 1, nullptr, 0};
  device.launches.clear();
  EXPECT_FALSE(product().cut.paired);
  EXPECT_EQ(device.launches[0].name, "matmul_prepare_tiles_nvfp4");
  EXPECT_TRUE(device.launches[0].as<PrepareTilesArgs>().by_blocks);
  EXPECT_EQ(device.launches[0].call.shared_bytes, 0);
  EXPECT_EQ(device.launches[1].call.cluster, 1);
}

TEST_F(CudaMatmulWide, asks_early_for_weights_that_nobody_writes) {
  EXPECT_FALSE(product().constant);
  call.b_is_constant = true;
  device.launches.clear();
  EXPECT_TRUE(product().constant);
}

TEST_F(CudaMatmulWide, reads_rows_of_16_byte_pieces_as_they_are) {
  call.a.data = memory->bytes + 16;
  matmul_wide(device, "matmul", call, stream);
  ASSERT_EQ(device.launches.size(), 1u);
  const auto args = device.launches[0].as<MatmulWideArgs>();
  EXPECT_EQ(args.tiles, nullptr);
  ASSERT_EQ(device.boxes.size(), 2u);
  const TensorBoxes& dense = device.boxes[args.dense.bytes[0]];
  EXPECT_EQ(dense.data, call.a.data);
  EXPECT_EQ(dense.element_bytes, 2);
  EXPECT_EQ(dense.size, (std::array<std::int64_t, 5>{320, 200}));
  EXPECT_EQ(dense.stride[1], 640);
  EXPECT_EQ(dense.box, (std::array<int, 5>{64, 64}));
  EXPECT_TRUE(dense.swizzle_128);
  EXPECT_FALSE(args.partial) << "the copy engine fills boxes up";
  EXPECT_EQ(wide_workspace_bytes(device.info(), call), 0);
  call.k = 16384, call.a.stride = 32768, call.rows = rows(40, 1);
  matmul_wide(device, "matmul", call, stream);
  ASSERT_EQ(device.launches.size(), 2u) << "nothing is cleared";
  EXPECT_GT(device.launches[1].as<MatmulWideArgs>().cut.tiles, 0u);
  call.a.stride = 2 * 320 + 2;  // not all of them
  device.launches.clear();
  matmul_wide(device, "matmul", call, stream);
  ASSERT_EQ(device.launches.size(), 2u);
  EXPECT_TRUE(device.launches[1].as<MatmulWideArgs>().partial);
}

TEST_F(CudaMatmulWide, stays_on_all_multiprocessors_where_there_are_tiles_enough) {
  call.n = 28672, call.rows = rows(768, 1);
  const MatmulWideArgs args = product();
  EXPECT_EQ(device.launches[1].name, "matmul_wide_mxfp4_bf16_128x256");
  EXPECT_EQ(device.launches[1].call.grid.x, 132u);
  EXPECT_FALSE(args.partial);
}

TEST_F(CudaMatmulWide, names_the_kernel_of_each_pair) {
  struct Pair {
    WideInput a;
    Format b;
    const char *prepare, *product;
  };
  const auto of = [](Format format) { return WideInput{.format = format}; };
  for (const Pair& pair :
       {Pair{of(Format::nvfp4), Format::nvfp4, "nvfp4", "nvfp4_bf16"},
        {of(Format::mxfp4), Format::nvfp4, "mxfp4", "nvfp4_bf16"},
        {of(Format::nvfp4), Format::mxfp8_e4m3, "nvfp4", "mxfp8_e4m3_bf16"},
        {of(Format::mxfp8_e5m2), Format::mxfp8_e5m2, "mxfp8_e5m2", "mxfp8_e5m2_bf16"},
        {{.format = {}, .type = DType::f16}, Format::nvfp4, "dense", "nvfp4_f16"}}) {
    device.launches.clear();
    call.a.format = pair.a.format, call.a.type = pair.a.type, call.b_format = pair.b;
    product();
    EXPECT_EQ(device.launches[0].name, std::string("matmul_prepare_tiles_") + pair.prepare);
    EXPECT_EQ(device.launches[1].name, "matmul_wide_" + std::string(pair.product) + "_128x64");
    EXPECT_EQ(device.launches[0].as<PrepareTilesArgs>().f16,
              device.launches[1].name.find("_f16_") != std::string::npos);
  }
}

TEST_F(CudaMatmulWide, knows_experts_by_their_offsets_alone) {
  call.rows = rows(300, 9, memory->bytes + 32768);
  call.a.format = Format::mxfp4, call.a.layout = Layout::tiled_128x4;
  const MatmulWideArgs args = product();
  EXPECT_TRUE(args.partial);
  EXPECT_TRUE(device.launches[0].as<PrepareTilesArgs>().tiled);
  EXPECT_EQ(device.launches[0].call.grid.y, 47u);  // 38 groups of eight rows, one more an expert
  EXPECT_EQ(device.launches[1].call.grid.x, 65u);  // at most 4 + 9 tiles of 64 rows, 5 of n
  EXPECT_FALSE(args.cut_by_kernel);                // five chunks of k: none to spare
  device.launches.clear();
  call.k = 1024, call.a.stride = 512;
  const MatmulWideArgs more = product();
  EXPECT_TRUE(more.cut_by_kernel);
  EXPECT_EQ(more.tiles_of_d, 65u);
  EXPECT_EQ(device.launches[1].call.grid.x, 132u);
}

TEST_F(CudaMatmulWide, leaves_very_many_rows_to_the_kernels_of_expanded_weights) {
  call.rows = rows(dense_least_rows - 1, 1);
  product();
  EXPECT_TRUE(device.launches[1].name.starts_with("matmul_wide_"));
  device.launches.clear();
  call.b_format = Format::mxfp8_e4m3, call.n = 8192, call.rows = rows(dense_least_rows, 1);
  matmul_wide(device, "matmul", call, stream);
  ASSERT_EQ(device.launches.size(), 3u);
  EXPECT_EQ(device.launches[2].name, "matmul_dense_bf16");
  EXPECT_EQ(wide_workspace_bytes(device.info(), call), dense_workspace_bytes(call));
}

TEST_F(CudaMatmulWide, stores_element_by_element_where_rows_are_not_aligned) {
  call.output.d_stride = 601;
  EXPECT_FALSE(product().vectors);
}

TEST_F(CudaMatmulWide, does_nothing_for_an_empty_result) {
  call.rows.m = 0;
  matmul_wide(device, "matmul", call, stream);
  call.rows.m = 8, call.n = 0;
  matmul_wide(device, "matmul", call, stream);
  EXPECT_TRUE(device.launches.empty());
}

TEST(WideCallOf, a_call_of_many_rows_and_packed_weights) {
  DeviceInfo hopper;
  hopper.major = 9;
  hopper.multiprocessors = 132;
  std::uint8_t byte = 0;
  const MatmulInput dense = TensorView{&byte, DType::bf16, 40, 64, 80};
  BlockTensorView view;
  view.shape = {40, 64, Format::nvfp4, BlockAxis::cols, Layout::tiled_128x4};
  view.codes = view.scales = {&byte, 1};
  const MatmulInput blocks = view;
  PackedWeights packed;
  packed.shape = {96, 64, Format::nvfp4};
  packed.bytes = {&byte, 1};
  const MatmulWeights weights = packed;
  const MatmulOutput d = MutableTensorView{};
  ProductOutput output{};
  output.alpha = 3;

  const MatmulCall of_dense{.a = dense, .b = weights, .d = d};
  const auto wide = wide_call(hopper, of_dense, rows(40, 1), output);
  ASSERT_TRUE(wide);
  EXPECT_FALSE(wide->a.format);
  EXPECT_EQ(wide->a.stride, 160);
  EXPECT_EQ(wide->b, &byte);
  EXPECT_EQ(wide->n, 96);
  EXPECT_EQ(wide->k, 64);
  EXPECT_EQ(wide->output.alpha, 3);
  EXPECT_FALSE(wide_call(hopper, of_dense, rows(8, 4), output)) << "few rows";
  EXPECT_FALSE(wide_call(hopper, of_dense, rows(32, 4, &byte), output)) << "few rows an expert";
  EXPECT_TRUE(wide_call(hopper, of_dense, rows(33, 4, &byte), output));

  const MatmulCall of_blocks{.a = blocks, .b = weights, .d = d};
  const auto scaled = wide_call(hopper, of_blocks, rows(40, 1), output);
  ASSERT_TRUE(scaled);
  EXPECT_EQ(scaled->a.format, Format::nvfp4);
  EXPECT_EQ(scaled->a.stride, 32);
  EXPECT_EQ(scaled->a.layout, Layout::tiled_128x4);
  const MatmulWeights plain = view;
  const MatmulCall of_plain{.a = blocks, .b = plain, .d = d};
  EXPECT_FALSE(wide_call(hopper, of_plain, rows(40, 1), output)) << "not packed";
  BlockTensorView many = view;
  many.shape.rows = 4096;
  const MatmulWeights wide_weights = many;
  const MatmulCall of_many{.a = blocks, .b = wide_weights, .d = d};
  const auto expanded = wide_call(hopper, of_many, rows(100 * dense_least_rows, 1), output);
  ASSERT_TRUE(expanded);
  EXPECT_EQ(expanded->b, nullptr);
  EXPECT_EQ(expanded->plain.codes, view.codes.data());
  EXPECT_EQ(expanded->plain.layout, Layout::tiled_128x4);
  hopper.major = 12;
  EXPECT_FALSE(wide_call(hopper, of_dense, rows(40, 1), output));
}

TEST(WideTakes, what_16_bits_hold) {
  DeviceInfo hopper;
  hopper.major = 9;
  const WideInput bf16{}, f16{.format = {}, .type = DType::f16},
      f32{.format = {}, .type = DType::f32};
  EXPECT_TRUE(wide_takes(hopper, bf16, Format::mxfp8_e5m2));
  EXPECT_TRUE(wide_takes(hopper, f16, Format::nvfp4));
  EXPECT_FALSE(wide_takes(hopper, f16, Format::mxfp4));
  EXPECT_FALSE(wide_takes(hopper, f32, Format::nvfp4));
  EXPECT_FALSE(wide_takes(hopper, bf16, Format::mxint8));
  EXPECT_FALSE(wide_takes(hopper, WideInput{.format = Format::mxfp6_e2m3}, Format::mxfp4));
  hopper.major = 10;
  EXPECT_FALSE(wide_takes(hopper, bf16, Format::mxfp4));
}

TEST_F(CudaMatmulWide, needs_a_in_16_bits_however_rows_are_shared_out) {
  call.n = 16, call.k = 65 * 32, call.rows = rows(9, 3);
  const WidePlan plan = wide_plan(16, 65 * 32, false, 9, 3, false, 544, false, 132);
  EXPECT_GT(plan.flag_bytes(), 0);
  EXPECT_EQ(wide_workspace_bytes(device.info(), call),
            (3 * 2 * 33 * 1024 + plan.sums_bytes() + plan.flag_bytes() + 255) / 256 * 256);
  call.k = 64, call.rows = rows(9, 3, memory->bytes);
  EXPECT_EQ(wide_workspace_bytes(device.info(), call), (2 + 3) * 1024);
}

}  // namespace
}  // namespace microscale::cuda
