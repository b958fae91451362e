// a made ready for products of many rows, on the emulated Hopper GPU: every code with every scale,
// bit by bit what FP32 makes of them.
#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/product.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"
#include "layouts/token_tiles.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {
namespace {

struct Rows {
  Format format;
  std::int64_t m, k, matrices = 1;
  bool f16 = false;
  Layout layout = Layout::row_major;
};

float decoded(Format format, std::uint8_t code) {
  return format == Format::mxfp8_e4m3   ? E4M3::decode(code)
         : format == Format::mxfp8_e5m2 ? E5M2::decode(code)
                                        : E2M1::decode(code);
}

class PrepareTiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }

  /// Scale of block b: b and what its row adds, as a byte; codes run through all values too.
  void expect_exact(const Rows& w) {
    const FormatInfo& facts = info(w.format);
    const std::int64_t rows = w.m * w.matrices, blocks = w.k / facts.block;
    const bool tiled = w.layout == Layout::tiled_128x4;
    const auto scale_of = [&](std::int64_t row, std::int64_t block) {
      return static_cast<std::uint8_t>(block + row / 16 * 7);
    };
    const auto code_of = [&](std::int64_t row, std::int64_t col) {
      return static_cast<std::uint8_t>((col + row * 32) % (1 << facts.code_bits));
    };
    const std::int64_t row_bytes = w.k * facts.code_bits / 8;
    const std::int64_t each = tiled ? tiled_128x4::bytes(w.m, blocks) : w.m * blocks;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * row_bytes)),
        scales(static_cast<std::size_t>(w.matrices * each));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < w.k; ++col)
        codes[static_cast<std::size_t>(row * row_bytes + col * facts.code_bits / 8)] |=
            static_cast<std::uint8_t>(code_of(row, col)
                                      << (facts.code_bits == 4 ? col % 2 * 4 : 0));
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t own = row % w.m;
        const std::int64_t at =
            tiled ? tiled_128x4::offset(own, block, blocks) : own * blocks + block;
        scales[static_cast<std::size_t>(row / w.m * each + at)] = scale_of(row, block);
      }
    }
    Buffers memory;
    cuda::Product call;
    call.a = {.format = w.format,
              .data = memory.put(codes),
              .stride = row_bytes,
              .scales = memory.put(scales),
              .layout = w.layout};
    call.k = w.k;
    call.rows = {.m = w.m, .matrices = w.matrices, .expert_rows = nullptr, .wide_numbers = 0};
    std::vector<std::uint16_t> tiles(
        static_cast<std::size_t>(token_tiles::bytes(w.m, w.matrices, false, w.k) / 2), 0xABCD);
    auto* const made = memory.put(tiles);
    cuda::prepare_tiles(device(), "prepare", w.format, cuda::prepare_tiles_args(call, w.f16, made),
                        nullptr);
    device().copy_to_host(tiles.data(), made, static_cast<std::int64_t>(2 * tiles.size()), nullptr);

    const std::int64_t groups = token_tiles::groups(w.m), chunks = token_tiles::chunks(w.k);
    int wrong = 0;
    for (std::int64_t matrix = 0; matrix < w.matrices; ++matrix)
      for (std::int64_t own = 0; own < groups * 8; ++own)
        for (std::int64_t col = 0; col < chunks * 64; ++col) {
          const std::int64_t row = matrix * w.m + own;
          std::uint16_t expected = 0;
          if (own < w.m && col < w.k) {
            const std::uint8_t scale = scale_of(row, col / facts.block);
            const float value =
                decoded(w.format, code_of(row, col)) *
                (facts.e8m0_scale ? decode_e8m0(scale) : E4M3::decode(scale & 0x7F));
            expected = w.f16 ? float_to_f16(value) : float_to_bf16(value);
            if (value != value) expected = 0x7FFF;  // what instructions make of a NaN
          }
          const std::int64_t place = matrix * groups * chunks + col / 64 * groups + own / 8;
          const std::int64_t at = place * token_tiles::group_bytes +
                                  token_tiles::piece_offset(own, col % 64 / 8) + col % 8 * 2;
          const std::uint16_t got = tiles[static_cast<std::size_t>(at / 2)];
          if (got != expected && ++wrong <= 5)
            ADD_FAILURE() << info(w.format).name << " matrix " << matrix << " row " << own
                          << " column " << col << ": " << got << ", not " << expected;
        }
    EXPECT_EQ(wrong, 0);
  }
};

// 256 blocks and more: every scale. Eight rows: every code of 8 bits.
TEST_F(PrepareTiles, multiplies_every_code_by_every_scale) {
  expect_exact({.format = Format::mxfp4, .m = 8, .k = 8192});
  expect_exact({.format = Format::nvfp4, .m = 8, .k = 4096});
  expect_exact({.format = Format::nvfp4, .m = 8, .k = 4096, .f16 = true});
  expect_exact({.format = Format::mxfp8_e4m3, .m = 8, .k = 8192});
  expect_exact({.format = Format::mxfp8_e5m2, .m = 8, .k = 8192});
}

TEST_F(PrepareTiles, fills_up_rows_and_k_and_takes_tiled_scales) {
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4})
    for (const std::int64_t k : {32, 224, 1024, 1056, 2528})
      for (const Format format :
           {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2})
        expect_exact({.format = format, .m = 21, .k = k, .matrices = 2, .layout = layout});
  expect_exact({.format = Format::nvfp4,
                .m = 131,
                .k = 1104,
                .matrices = 2,
                .f16 = true,
                .layout = Layout::tiled_128x4});
}

}  // namespace
}  // namespace microscale::emulator
