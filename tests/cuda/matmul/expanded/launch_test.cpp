// What a product of very many rows tells the device, without one.
#include "cuda/matmul/expanded/launch.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "cuda/matmul/expanded/plan.hpp"
#include "fake_device.hpp"

namespace microscale::cuda {
namespace {

ProductRows rows(std::int64_t m, std::int64_t matrices, const void* offsets = nullptr) {
  return {m, matrices, offsets, 0};
}

class CudaMatmulDense : public ::testing::Test {
 protected:
  CudaMatmulDense() {
    call.a = {.format = Format::mxfp4, .data = memory->bytes, .stride = 160};
    call.a.scales = memory->bytes + 2048;
    call.b_format = Format::mxfp4;
    call.b = memory->bytes + 4096;
    call.n = 600;
    call.k = 320;
    call.rows = rows(700, 2);
    call.output.d = memory->bytes + 8192;
    call.output.d_stride = 600;
    call.output.d_matrix = 420000;
    call.output.d_type = static_cast<std::int32_t>(DType::bf16);
    call.workspace = memory->bytes + 16384;
  }
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }
  void multiply() { matmul_dense(device, "matmul", call, stream); }
  std::int64_t offset(const void* place) const {
    return static_cast<const std::uint8_t*>(place) -
           static_cast<const std::uint8_t*>(call.workspace);
  }
  test::FakeDevice device{9, 0};
  std::unique_ptr<test::Aligned> memory = std::make_unique<test::Aligned>();
  WideCall call;
  Stream stream = &call;
};

TEST_F(CudaMatmulDense, makes_both_operands_and_multiplies) {
  multiply();
  ASSERT_EQ(device.launches.size(), 3u);
  const char* names[] = {"matmul_prepare_tiles_mxfp4", "matmul_expand_mxfp4_bf16",
                         "matmul_dense_bf16"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(device.launches[i].name, names[i]);
    EXPECT_EQ(device.launches[i].call.stream, stream);
  }
  const auto expand = device.launches[1].as<ExpandWeightsArgs>();
  const auto args = device.launches[2].as<MatmulDenseArgs>();
  EXPECT_EQ(expand.b, call.b);
  EXPECT_EQ(expand.row_tiles, 38);
  EXPECT_EQ(expand.chunks, 5);
  EXPECT_EQ(expand.tiles, 2 * 38 * 5);
  EXPECT_EQ(device.launches[1].call.grid.x, 12u);  // 380 tiles, 32 a block
  EXPECT_EQ(device.launches[0].as<PrepareTilesArgs>().tiles, args.a);
  EXPECT_EQ(args.a, call.workspace);
  EXPECT_EQ(args.b, expand.expanded);
  EXPECT_EQ(offset(args.b), 2 * 88 * 5 * 1024);  // groups of eight rows, chunks
  EXPECT_EQ(dense_workspace_bytes(call), (2 * 88 + 2 * 76) * 5 * 1024);
  EXPECT_EQ(device.launches[2].call.grid.x, 36u);  // 3 x 3 pairs of tiles, twice
  EXPECT_EQ(device.launches[2].call.threads, wide_threads);
  EXPECT_EQ(device.launches[2].call.shared_bytes, dense_shared(dense_16_shape, false).bytes);
  EXPECT_TRUE(args.vectors);
  EXPECT_TRUE(args.partial);
  EXPECT_EQ(args.only_if, nullptr);
  EXPECT_EQ(args.misfit.word, nullptr);
}

TEST_F(CudaMatmulDense, stays_on_all_multiprocessors_where_there_are_tiles_enough) {
  call.n = 8192, call.rows = rows(4096, 1);
  multiply();
  EXPECT_EQ(device.launches[2].call.grid.x, 132u);
  EXPECT_FALSE(device.launches[2].as<MatmulDenseArgs>().partial);
  call.n = 8208;
  multiply();
  EXPECT_TRUE(device.launches[5].as<MatmulDenseArgs>().partial);
}

TEST_F(CudaMatmulDense, names_the_kernels_of_each_pair) {
  struct Pair {
    std::optional<Format> a;
    DType type;
    Format b;
    const char *prepare, *expand;
  };
  for (const Pair& pair :
       {Pair{Format::nvfp4, DType::bf16, Format::nvfp4, "nvfp4", "nvfp4_f16"},
        {Format::mxfp4, DType::bf16, Format::nvfp4, "mxfp4", "nvfp4_bf16"},
        {Format::nvfp4, DType::bf16, Format::mxfp8_e4m3, "nvfp4", "mxfp8_e4m3_bf16"},
        {{}, DType::bf16, Format::mxfp8_e5m2, "dense", "mxfp8_e5m2_bf16"},
        {{}, DType::f16, Format::nvfp4, "dense", "nvfp4_f16"}}) {
    device.launches.clear();
    call.a.format = pair.a, call.a.type = pair.type, call.b_format = pair.b;
    multiply();
    const std::string expand(pair.expand);
    EXPECT_EQ(device.launches[0].name, std::string("matmul_prepare_tiles_") + pair.prepare);
    EXPECT_EQ(device.launches[1].name, "matmul_expand_" + expand);
    EXPECT_EQ(device.launches[2].name, "matmul_dense_" + expand.substr(expand.rfind('_') + 1));
    EXPECT_EQ(device.launches[0].as<PrepareTilesArgs>().f16, expand.ends_with("_f16"));
  }
}

class CudaMatmulDenseQuantized : public CudaMatmulDense {
 protected:
  CudaMatmulDenseQuantized() {
    call.rows = rows(700, 2), call.n = 608;
    d.format = Format::nvfp4;
    d.numerics.scale_rule = ScaleRule::nearest;
    d.device_global_scale = reinterpret_cast<const float*>(memory->bytes + 128);
    d.codes = {memory->bytes + 32768, 512};
    d.scales = {memory->bytes + 40960, 512};
    call.quantized = &d;
  }
  MatmulDenseBlocksArgs launched() {
    device.launches.clear(), device.zeroed.clear();
    multiply();
    return device.launches.back().as<MatmulDenseBlocksArgs>();
  }
  QuantizedOutput d;
};

TEST_F(CudaMatmulDenseQuantized, says_where_codes_and_scales_of_each_matrix_go) {
  const MatmulDenseBlocksArgs args = launched();
  ASSERT_EQ(device.launches.size(), 3u);
  EXPECT_EQ(device.launches[2].name, "matmul_dense_bf16_to_nvfp4");
  EXPECT_EQ(device.launches[2].call.shared_bytes, dense_shared(dense_16_shape, false).bytes);
  EXPECT_EQ(args.product.a, call.workspace);
  EXPECT_EQ(args.blocks.quantize.rows, 700);
  EXPECT_EQ(args.blocks.quantize.cols, 608);
  EXPECT_EQ(args.blocks.quantize.codes, d.codes.data());
  EXPECT_EQ(args.blocks.quantize.code_stride, 304);
  EXPECT_EQ(args.blocks.codes_matrix, 700 * 304);
  EXPECT_EQ(args.blocks.quantize.scales, d.scales.data());
  EXPECT_EQ(args.blocks.scales_matrix, 700 * 38);
  EXPECT_EQ(args.blocks.quantize.global_scale, d.device_global_scale);
  EXPECT_FALSE(args.blocks.tiled);
  EXPECT_FALSE(args.blocks.quantize.tiles.scale_words) << "rows of 38 scales";
  EXPECT_TRUE(device.zeroed.empty());
}

// Padding leaves with the words; where there are none it is there before.
TEST_F(CudaMatmulDenseQuantized, writes_scales_as_words_where_no_two_tiles_share_one) {
  d.layout = Layout::tiled_128x4;
  MatmulDenseBlocksArgs args = launched();
  EXPECT_TRUE(args.blocks.tiled);
  EXPECT_TRUE(args.blocks.quantize.tiles.scale_words);
  EXPECT_EQ(args.blocks.scales_matrix, 6 * 10 * 512);
  EXPECT_TRUE(device.zeroed.empty());
  call.fp8 = true, d.format = Format::mxfp4, d.numerics.scale_rule = ScaleRule::rceil;
  launched();
  EXPECT_EQ(device.launches[1].name, "matmul_dense_fp8_to_mxfp4");
  EXPECT_EQ(device.launches[4].name, "matmul_dense_bf16_to_mxfp4");
  const auto fp8 = device.launches[1].as<MatmulDenseBlocksArgs>(),
             bf16 = device.launches[4].as<MatmulDenseBlocksArgs>();
  EXPECT_FALSE(fp8.blocks.quantize.tiles.scale_words) << "six blocks to a tile of d";
  EXPECT_TRUE(bf16.blocks.quantize.tiles.scale_words);
  EXPECT_EQ(fp8.blocks.quantize.global_scale, nullptr);
  ASSERT_EQ(device.zeroed.size(), 1u);
  EXPECT_EQ(device.zeroed[0].first, d.scales.data());
  EXPECT_EQ(device.zeroed[0].second, 2 * 6 * 5 * 512);
  call.rows = rows(768, 2), call.n = 640;
  launched();
  EXPECT_TRUE(device.zeroed.empty()) << "no padding";
  call.fp8 = false, call.n = 608, d.layout = Layout::row_major;
  EXPECT_FALSE(launched().blocks.quantize.tiles.scale_words);
  call.n = 640;
  EXPECT_TRUE(launched().blocks.quantize.tiles.scale_words);
  call.output.gated = 1;
  EXPECT_TRUE(launched().blocks.quantize.tiles.scale_words);
}

TEST_F(CudaMatmulDenseQuantized, leaves_searches_and_experts_to_a_launch_of_their_own) {
  EXPECT_TRUE(dense_quantizes(call, d));
  for (const ScaleRule rule : {ScaleRule::search, ScaleRule::full, ScaleRule::four_over_six}) {
    d.numerics.scale_rule = rule;
    EXPECT_FALSE(dense_quantizes(call, d)) << to_string(rule);
  }
  d.numerics.scale_rule = ScaleRule::nearest;
  d.numerics.rounding = Rounding::stochastic;
  EXPECT_FALSE(dense_quantizes(call, d));
  d.numerics.rounding = Rounding::nearest_even;
  d.numerics.compat = Compat::modelopt;
  EXPECT_FALSE(dense_quantizes(call, d));
  d.numerics.compat = Compat::none;
  d.device_global_scale = nullptr;
  EXPECT_FALSE(dense_quantizes(call, d));
  d.format = Format::mxfp8_e5m2, d.numerics.scale_rule = ScaleRule::even;
  EXPECT_TRUE(dense_quantizes(call, d));
  call.rows.expert_rows = memory->bytes;
  EXPECT_FALSE(dense_quantizes(call, d));
}

// Rows like those of a; of a gate and up eight in turn.
TEST_F(CudaMatmulDense, takes_plain_weights_as_they_are) {
  call.b = nullptr, call.n = 601;
  call.b_is_plain = true;
  call.plain = {memory->bytes + 4096, memory->bytes + 6144, Layout::tiled_128x4};
  EXPECT_FALSE(dense_takes_plain(device.info(), call)) << "few rows";
  multiply();
  ASSERT_EQ(device.launches.size(), 3u);
  EXPECT_EQ(device.launches[1].name, "matmul_prepare_tiles_mxfp4");
  const auto weights = device.launches[1].as<PrepareTilesArgs>();
  EXPECT_EQ(weights.a, call.plain.codes);
  EXPECT_EQ(weights.a_stride, 160);
  EXPECT_EQ(weights.scales, call.plain.scales);
  EXPECT_TRUE(weights.tiled);
  EXPECT_EQ(weights.rows.m, 601);
  EXPECT_EQ(weights.rows.matrices, 2);
  EXPECT_EQ(weights.group_step, 1);
  const auto args = device.launches[2].as<MatmulDenseArgs>();
  EXPECT_EQ(args.b, weights.tiles);
  EXPECT_EQ(args.weight_groups, 76);
  device.launches.clear();
  call.output.gated = 1, call.plain_up.codes = memory->bytes + 5120;
  call.rows = rows(2 * dense_least_rows, 2);
  EXPECT_TRUE(dense_takes_plain(device.info(), call));
  multiply();
  ASSERT_EQ(device.launches.size(), 4u);
  const auto gate = device.launches[1].as<PrepareTilesArgs>(),
             up = device.launches[2].as<PrepareTilesArgs>();
  EXPECT_EQ(up.a, call.plain_up.codes);
  EXPECT_FALSE(up.tiled);
  EXPECT_EQ(gate.tiles, up.tiles);
  EXPECT_EQ(gate.group_step, 2);
  EXPECT_EQ(gate.group_first, 0);
  EXPECT_EQ(up.group_first, 1);
  EXPECT_EQ(device.launches[3].as<MatmulDenseArgs>().weight_groups, 152);
  call.fp8 = true;
  EXPECT_FALSE(dense_takes_plain(device.info(), call)) << "FP8 wants packed ones";
}

TEST_F(CudaMatmulDense, knows_experts_by_their_offsets_alone) {
  call.rows = rows(700, 9, memory->bytes + 32768);
  multiply();
  EXPECT_TRUE(device.launches[2].as<MatmulDenseArgs>().partial);
  EXPECT_EQ(device.launches[2].call.grid.x, 66u);  // at most 2 + 9 pairs of tiles, 3 of n, twice
}

TEST_F(CudaMatmulDense, multiplies_in_fp8_where_told_and_in_bf16_where_that_did_not_fit) {
  const std::int64_t without = dense_workspace_bytes(call);
  call.fp8 = true;
  multiply();
  const char* names[] = {"matmul_ready_fp8", "matmul_dense_fp8", "matmul_prepare_tiles_mxfp4",
                         "matmul_expand_mxfp4_bf16", "matmul_dense_bf16"};
  ASSERT_EQ(device.launches.size(), std::size(names));
  for (std::size_t i = 0; i < std::size(names); ++i) EXPECT_EQ(device.launches[i].name, names[i]);
  const auto ready = device.launches[0].as<ReadyFp8Args>();
  const auto product = device.launches[1].as<MatmulDenseArgs>(),
             in_16_bits = device.launches[4].as<MatmulDenseArgs>();
  EXPECT_EQ(ready.expanding, 2u * 38u);  // tiles of 16 rows, k in one part
  EXPECT_EQ(ready.preparing, 2u * 88u);  // groups of eight rows
  EXPECT_EQ(device.launches[0].call.grid.x, ready.expanding + ready.preparing);
  EXPECT_EQ(device.launches[1].call.grid.x, 48u);  // 3 x 4 pairs of tiles, twice, twice
  EXPECT_EQ(device.launches[1].call.shared_bytes, dense_shared(dense_8_shape, true).bytes);
  EXPECT_TRUE(device.zeroed.empty()) << "what nothing overlaps";
  EXPECT_EQ(product.references, ready.weights.references);
  EXPECT_EQ(product.b, ready.weights.expanded);
  EXPECT_EQ(product.a, ready.rows.a.tiles);
  EXPECT_EQ(product.factors, ready.rows.factors);
  EXPECT_NE(ready.misfit.ticket, 0u);
  for (const Fp8Misfit& misfit : {product.misfit, in_16_bits.misfit}) {
    EXPECT_EQ(misfit.word, ready.misfit.word);
    EXPECT_EQ(misfit.ticket, ready.misfit.ticket);
    EXPECT_EQ(misfit.verdict, ready.misfit.verdict);
  }
  EXPECT_EQ(product.only_if, nullptr);
  EXPECT_EQ(device.launches[2].as<PrepareTilesArgs>().only_if, ready.misfit.verdict);
  EXPECT_EQ(device.launches[3].as<ExpandWeightsArgs>().only_if, ready.misfit.verdict);
  EXPECT_EQ(in_16_bits.only_if, ready.misfit.verdict);
  EXPECT_EQ(offset(product.b), 2 * 88 * 3 * 1024);  // chunks of 128
  EXPECT_EQ(offset(product.factors), (2 * 88 + 2 * 76) * 3 * 1024);
  EXPECT_EQ(offset(product.references), without);  // both element types in the same place
  EXPECT_EQ(offset(ready.misfit.word) + 256, dense_workspace_bytes(call));
  EXPECT_LE(offset(ready.misfit.verdict) + 4, dense_workspace_bytes(call));
  device.launches.clear();
  call.a.format = Format::nvfp4;  // has no FP8
  multiply();
  EXPECT_EQ(device.launches.size(), 3u);
}

TEST_F(CudaMatmulDense, serves_from_some_number_of_rows_on) {
  const auto serves = [&](std::int64_t m, std::int64_t matrices, bool experts = false) {
    call.rows = rows(m, matrices, experts ? memory->bytes : nullptr);
    return dense_serves(device.info(), call);
  };
  call.n = call.k = 8192;
  EXPECT_FALSE(serves(8 * dense_least_rows, 1)) << "codes of four bits";
  EXPECT_FALSE(serves(2 * dense_least_rows - 2, 2, true)) << "on average";
  EXPECT_TRUE(serves(2 * dense_least_rows - 1, 2, true)) << "but of experts";
  const QuantizedOutput quantized{};
  call.quantized = &quantized;
  EXPECT_TRUE(serves(dense_least_rows, 1));
  call.quantized = nullptr;
  call.b_format = Format::mxfp8_e4m3;
  EXPECT_TRUE(serves(dense_least_rows, 2));
  EXPECT_FALSE(serves(dense_least_rows - 1, 2));
  call.b_format = Format::mxfp4;
  call.fp8 = true;
  EXPECT_TRUE(serves(4096, 1));
  EXPECT_FALSE(serves(512, 1)) << "decoded, it is faster";
  EXPECT_FALSE(serves(dense_least_rows_fp8 - 1, 1));
  call.b_format = Format::nvfp4;
  EXPECT_FALSE(serves(512, 1));
  call.n = 512;
  EXPECT_FALSE(serves(dense_least_rows, 1)) << "few tiles";
}

TEST_F(CudaMatmulDense, does_nothing_for_an_empty_result) {
  call.rows.m = 0;
  multiply();
  call.rows.m = 8, call.n = 0;
  multiply();
  EXPECT_TRUE(device.launches.empty());
  EXPECT_EQ(dense_workspace_bytes(call), 0);
}

}  // namespace
}  // namespace microscale::cuda
