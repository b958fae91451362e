// Weights packed by the kernels, on the emulated Hopper GPU, byte by byte what the host packs:
// other tests pack on the host.
#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/matmul.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {
namespace {

constexpr Format formats[] = {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2};

struct Weights {
  Format format;
  std::int64_t rows, cols, matrices = 1;
  bool gated = false;
  Layout layout = Layout::row_major, up_layout = Layout::row_major;
};

class PackWeightsKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }

  /// A view of `from`, matrix by matrix, in device memory; scales in `layout`.
  BlockTensorView on_device(const BlockTensor& from, const Weights& w, Layout layout) {
    BlockTensorView view = from.view();
    view.shape.rows = w.rows;
    view.shape.layout = layout;
    view.codes = {memory_.put(from.codes()), from.codes().size()};
    const std::int64_t blocks = view.shape.blocks_per_line(), each = view.shape.scale_bytes();
    std::vector<std::uint8_t> scales(static_cast<std::size_t>(w.matrices * each));
    for (std::int64_t row = 0; row < w.matrices * w.rows; ++row)
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t own = row % w.rows;
        const std::int64_t at = layout == Layout::tiled_128x4
                                    ? tiled_128x4::offset(own, block, blocks)
                                    : own * blocks + block;
        scales[static_cast<std::size_t>(row / w.rows * each + at)] =
            from.scales()[static_cast<std::size_t>(row * blocks + block)];
      }
    view.scales = {memory_.put(scales), scales.size()};
    return view;
  }

  void expect_packed(const Weights& w) {
    const auto filled = [&](unsigned seed) {
      BlockTensor b =
          test::random_blocks(w.format, w.matrices * w.rows, w.cols, Layout::row_major, seed);
      std::size_t i = seed;
      for (std::uint8_t& scale : b.scales()) scale = static_cast<std::uint8_t>(i * 37 + i / 7), ++i;
      return b;
    };
    const BlockTensor b = filled(3), up = filled(4);
    const std::vector<std::uint8_t> expected =
        test::packed_tiles(b, w.matrices, w.gated ? &up : nullptr);
    const BlockTensorView gate = on_device(b, w, w.layout), other = on_device(up, w, w.up_layout);
    auto* to = static_cast<std::uint8_t*>(memory_.raw(expected.size()));
    device().set_bytes(to, 0xA5, static_cast<std::int64_t>(expected.size()), nullptr);
    cuda::pack_weights(device(), gate, w.gated ? &other : nullptr, {to, expected.size()},
                       w.matrices, nullptr);
    std::vector<std::uint8_t> bytes(expected.size());
    device().copy_to_host(bytes.data(), to, static_cast<std::int64_t>(bytes.size()), nullptr);
    EXPECT_EQ(bytes, expected) << info(w.format).name << ' ' << w.rows << " x " << w.cols;
  }

  Buffers memory_;
};

TEST_F(PackWeightsKernel, fills_tiles_up_with_zeros_whatever_the_format) {
  for (const Format format : formats)
    for (const bool gated : {false, true})
      expect_packed({.format = format, .rows = 21, .cols = 160, .matrices = 2, .gated = gated});
}

TEST_F(PackWeightsKernel, reads_either_layout_of_scales) {
  for (const Format format : formats) {
    expect_packed(
        {.format = format, .rows = 150, .cols = 96, .matrices = 2, .layout = Layout::tiled_128x4});
    expect_packed({.format = format,
                   .rows = 131,
                   .cols = 224,
                   .gated = true,
                   .up_layout = Layout::tiled_128x4});
  }
}

// Blocks of 16: rows of codes begin at multiples of 8 bytes, of scales anywhere.
TEST_F(PackWeightsKernel, takes_rows_that_begin_at_multiples_of_eight_bytes) {
  for (const std::int64_t cols : {16, 48, 80, 112, 336, 560})
    for (const Layout layout : {Layout::row_major, Layout::tiled_128x4})
      expect_packed(
          {.format = Format::nvfp4, .rows = 19, .cols = cols, .matrices = 3, .layout = layout});
}

TEST_F(PackWeightsKernel, shares_k_among_warps) {
  for (const Format format : formats)
    for (const std::int64_t cols : {256, 320, 1344})
      expect_packed({.format = format, .rows = 40, .cols = cols, .gated = true});
}

}  // namespace
}  // namespace microscale::emulator
