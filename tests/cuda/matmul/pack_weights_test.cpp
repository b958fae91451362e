// What pack_weights tells the device, and what it refuses, without a GPU.
#include <gtest/gtest.h>

#include <memory>

#include "cuda/matmul/matmul.hpp"
#include "cuda/matmul/args.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

using test::expect_error;

TEST(CudaPackWeights, gives_a_warp_to_every_four_parts_along_k) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  test::FakeDevice device{12, 0};
  const auto memory = std::make_unique<test::Aligned>(), out = std::make_unique<test::Aligned>();
  const BlockShape shape{20, 96, Format::mxfp8_e5m2, BlockAxis::cols, Layout::tiled_128x4};
  const BlockTensorView gate{shape, {memory->bytes, 1920}, {memory->bytes + 2048, 512}};
  const auto bytes = static_cast<std::size_t>(cuda::packed_weights_bytes(shape, 1, true));
  EXPECT_EQ(bytes, 3u * 2 * 1056) << "eight rows of each matrix a tile";
  const PackedWeights packed =
      cuda::pack_weights(device, gate, &gate, {out->bytes, bytes}, 1, nullptr);
  EXPECT_TRUE(packed.gated);
  EXPECT_EQ(packed.shape.layout, Layout::row_major);
  ASSERT_EQ(device.launches.size(), 1u);
  EXPECT_EQ(device.launches[0].name, "pack_weights_mxfp8");
  EXPECT_EQ(device.launches[0].call.grid.x, 1u);  // three rows of tiles, two tiles a warp
  const auto args = device.launches[0].as<PackWeightsArgs>();
  EXPECT_EQ(args.tiled, 1);
  EXPECT_EQ(args.up_codes, memory->bytes);
  EXPECT_EQ(args.up_scale_matrix, 512);
}

TEST(CudaPackWeights, refuses_formats_and_sizes_it_does_not_have) {
  test::FakeDevice device{9, 0};
  expect_error(ErrorCode::unsupported, "MXFP4, NVFP4 and MXFP8", [] {
    cuda::packed_weights_bytes({16, 64, Format::mxfp6_e3m2}, 1, false);
  });
  BlockTensorView view{{16, 64, Format::mxfp4}, {}, {}};
  expect_error(ErrorCode::invalid_argument, "the output has 0 bytes, 544 are needed",
               [&] { cuda::pack_weights(device, view, nullptr, {}, 1, nullptr); });
}

}  // namespace
}  // namespace microscale::cuda
