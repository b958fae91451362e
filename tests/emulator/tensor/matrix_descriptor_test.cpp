// Descriptors of shared memory, and where their chunks lie. mma_golden_test.cpp replays what a GPU
// read through them.
#include <gtest/gtest.h>

#include <set>

#include "emulator/tensor/matrix_descriptor.hpp"

namespace microscale::testing {
namespace {

namespace tensor = emulator::tensor;
using tensor::MatrixDescriptor, tensor::Swizzle;

TEST(MatrixDescriptor, is_packed_and_unpacked) {
  for (const Swizzle swizzle :
       {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128}) {
    const MatrixDescriptor d{0x3450, 0x10, 0x400, 5, swizzle};
    EXPECT_EQ(tensor::wgmma_descriptor(tensor::wgmma_descriptor_bits(d)), d);
  }
  EXPECT_EQ(tensor::wgmma_descriptor(1ull << 62).swizzle, Swizzle::bytes128);
  EXPECT_EQ(tensor::wgmma_descriptor_bits({0x40, 0, 1024, 0, Swizzle::none}), 0x40ull << 32 | 4);
}

// Every chunk of a 64 x 32-byte tile lies somewhere else, and eight rows of a chunk column spread
// over all banks (128-byte swizzle), over half of them (64), a quarter (32).
TEST(MatrixDescriptor, swizzles_permute_chunks) {
  for (const Swizzle swizzle :
       {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128}) {
    const std::uint32_t row_bytes = 16u << static_cast<int>(swizzle);
    const MatrixDescriptor d{2048, 128, swizzle == Swizzle::none ? 256u : 8 * row_bytes, 0,
                             swizzle};
    std::set<std::uint32_t> addresses, banks;
    for (std::uint32_t row = 0; row < 64; ++row)
      for (std::uint32_t chunk = 0; chunk < 2; ++chunk)
        addresses.insert(k_major_chunk(d, row, chunk));
    EXPECT_EQ(addresses.size(), 128u);
    for (std::uint32_t row = 0; row < 8; ++row) banks.insert(k_major_chunk(d, row, 1) / 16 % 8);
    EXPECT_EQ(banks.size(), 8u);  // without a swizzle rows are 16 bytes apart
  }
  const MatrixDescriptor wide{1024, 16, 1024, 0, Swizzle::bytes128};
  EXPECT_EQ(k_major_chunk(wide, 0, 1), 1024u + 16);
  EXPECT_EQ(k_major_chunk(wide, 3, 1), 1024u + 3 * 128 + ((1 ^ 3) << 4));
  EXPECT_EQ(k_major_chunk(wide, 11, 0), 2048u + 3 * 128 + (3 << 4));
  MatrixDescriptor shifted = wide;  // a pattern that begins at its row 2
  shifted.start = 1024 + 256, shifted.base_offset = 2;
  EXPECT_EQ(k_major_chunk(shifted, 0, 1), 1024u + 256 + 16);
  EXPECT_EQ(mn_major_chunk(wide, 5, 3), 1024u + 3 * 128 + ((5 ^ 3) << 4));
}

}  // namespace
}  // namespace microscale::testing
