// Packed weights hold every code and scale of the plain ones, in rows, gate and up by turns.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "layouts/packed_weights.hpp"
#include "microscale/error.hpp"
#include "microscale/matmul.hpp"
#include "support/products.hpp"

namespace microscale {
namespace {

struct Memory {
  explicit Memory(std::int64_t bytes)
      : size(static_cast<std::size_t>(bytes)),
        data(static_cast<std::uint8_t*>(std::aligned_alloc(64, size)), &std::free) {
    std::fill_n(data.get(), size, std::uint8_t{0xEE});
  }
  std::span<std::uint8_t> span() { return {data.get(), size}; }
  std::size_t size;
  std::unique_ptr<std::uint8_t, void (*)(void*)> data;
};

std::int64_t bytes_of(const BlockShape& shape, std::int64_t matrices = 1,
                      microscale::Memory memory = microscale::Memory::host) {
  return packed_weights_bytes({.b = {.shape = shape, .memory = memory}, .matrices = matrices});
}

TEST(PackWeights, holds_rows_of_codes_and_scales_whatever_the_layout) {
  for (Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
    const BlockTensor rows = test::random_blocks(Format::nvfp4, 131, 112, Layout::row_major, 3),
                      given = test::random_blocks(Format::nvfp4, 131, 112, layout, 3);
    Memory memory(packed_weights_bytes({.b = given.view()}));
    const PackedWeights packed = pack_weights({.b = given.view()}, memory.span());
    EXPECT_EQ(packed.global_scale.value(), given.global_scale);
    EXPECT_EQ(packed.shape, rows.shape());
    const packed_weights::Parts parts(packed.shape, false);
    EXPECT_TRUE(std::equal(rows.codes().begin(), rows.codes().end(),
                           packed.bytes.begin() + parts.codes_at(0)));
    EXPECT_TRUE(std::equal(rows.scales().begin(), rows.scales().end(),
                           packed.bytes.begin() + parts.scales_at(0)));
    for (std::int64_t i = parts.scales_at(0) + 131 * 7; i < parts.total(1); ++i)
      ASSERT_EQ(packed.bytes[static_cast<std::size_t>(i)], 0) << "a gap is not zero";
  }
}

TEST(PackWeights, a_gate_and_an_up_row_lie_side_by_side) {
  const BlockTensor gate = test::random_blocks(Format::mxfp4, 5, 64, Layout::row_major, 3),
                    up = test::random_blocks(Format::mxfp4, 5, 64, Layout::tiled_128x4, 4);
  Memory memory(packed_weights_bytes({.b = gate.view(), .up = up.view()}));
  const PackedWeights packed = pack_weights({.b = gate.view(), .up = up.view()}, memory.span());
  const packed_weights::Parts parts(packed.shape, true);
  for (std::int64_t r = 0; r < 5; ++r)
    for (std::int64_t i = 0; i < 32; ++i) {
      const auto at = static_cast<std::size_t>(parts.codes_at(0) + 2 * r * 32 + i),
                 from = static_cast<std::size_t>(r * 32 + i);
      ASSERT_EQ(packed.bytes[at], gate.codes()[from]);
      ASSERT_EQ(packed.bytes[at + 32], up.codes()[from]);
    }
}

TEST(PackWeights, refuses_columns_of_blocks_and_formats_without_kernels) {
  const BlockShape down{64, 64, Format::mxfp4, BlockAxis::rows};
  EXPECT_THROW(bytes_of(down), Error);
  EXPECT_THROW(bytes_of({64, 64, Format::mxfp4}, -1), Error);
  EXPECT_THROW(bytes_of({64, 65, Format::mxfp4}), Error);
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_THROW(bytes_of({64, 64, Format::mxfp4}, huge), Error);
  EXPECT_THROW(bytes_of({huge, 64, Format::mxfp4}), Error);
  EXPECT_THROW(bytes_of({64, huge, Format::mxfp4}), Error);
  EXPECT_THROW(bytes_of({64, 64, Format::mxint8}, 1, microscale::Memory::device), Error);
}

}  // namespace
}  // namespace microscale
