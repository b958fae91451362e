// wgmma's maps and descriptors; its arithmetic is replayed in mma_golden_test.cpp.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>

#include "emulator/tensor/wgmma.hpp"
#include "emulator/tensor/wgmma_fragments.hpp"
#include "support/cute_layout.hpp"

namespace microscale::testing {
namespace {

namespace tensor = emulator::tensor;
using tensor::MatrixDescriptor, tensor::Operand, tensor::Result, tensor::Swizzle;

TEST(WgmmaFragments, follow_their_layouts) {
  const CuteLayout d("((4,8,4),(2,2,32)):((128,1,16),(64,8,512))");   // row + 64 column
  const CuteLayout a16("((4,8,4),(2,2,2)):((128,1,16),(64,8,512))");  // row + 64 k
  const CuteLayout a8("((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))");
  const CuteLayout a32("((4,8,4),(1,2,2)):((64,1,16),(0,8,256))");
  for (int warp = 0; warp < 4; ++warp)
    for (int lane = 0; lane < 32; ++lane) {
      const int thread = 32 * warp + lane;
      for (int value = 0; value < 128; ++value) {
        const auto at = tensor::wgmma_d_coordinate(32, warp, {lane, value, 0});
        EXPECT_EQ(at.row + 64 * at.column, d({thread, value}));
        const auto half = tensor::wgmma_d_coordinate(16, warp, {lane, value / 2, value % 2});
        EXPECT_EQ(half, at);
      }
      for (int bits : {8, 16, 32}) {
        const CuteLayout& layout = bits == 8 ? a8 : bits == 16 ? a16 : a32;
        for (int value = 0; value < 128 / bits; ++value) {
          const auto at = tensor::wgmma_a_coordinate(
              bits, warp, {lane, value * bits / 32, value % (32 / bits)});
          EXPECT_EQ(at.row + 64 * at.column, layout({thread, value}));
        }
      }
    }
}

TEST(Wgmma, identity_and_one_hots_through_every_path) {
  for (const bool in_registers : {false, true})
    for (const Operand type :
         {Operand::f16, Operand::bf16, Operand::e4m3, Operand::s8, Operand::tf32}) {
      tensor::WgmmaShape shape;
      shape.n = 16, shape.a = shape.b = type;
      shape.d = type == Operand::s8 ? Result::s32 : Result::f32;
      const int bits = container_bits(tensor::Kind::plain, type), k = shape.k();
      const std::uint32_t one = type == Operand::f16    ? 0x3C00
                                : type == Operand::bf16 ? 0x3F80
                                : type == Operand::e4m3 ? 0x38
                                : type == Operand::tf32 ? 0x3F800000
                                                        : 1;
      tensor::WgmmaTile a, b;
      std::uint32_t words[16][32] = {}, *rows[16];
      for (int i = 0; i < 16; ++i) rows[i] = words[i];
      // A(row, k) = 1 where k = row % K; B(k, column) = 1 where k = column % K.
      if (in_registers) {
        for (int warp = 0; warp < 4; ++warp)
          for (int lane = 0; lane < 32; ++lane)
            for (int value = 0; value < 128 / bits; ++value) {
              const tensor::Slot slot{lane, value * bits / 32, value % (32 / bits)};
              const auto at = tensor::wgmma_a_coordinate(bits, warp, slot);
              if (at.column == at.row % k)
                words[4 * warp + slot.reg][lane] |= one << (bits * slot.item);
            }
        read_register_tile(shape, rows, a);
      } else {
        const MatrixDescriptor d{0, 16, 1024, 0, Swizzle::bytes128};
        std::map<std::uint32_t, std::array<std::uint8_t, 16>> shared;
        for (std::uint32_t row = 0; row < 64; ++row) {
          const int byte = static_cast<int>(row) % k * bits / 8;
          auto& chunk = shared[k_major_chunk(d, row, static_cast<std::uint32_t>(byte / 16))];
          for (int i = 0; i < bits / 8; ++i)
            chunk[static_cast<std::size_t>(byte % 16 + i)] =
                static_cast<std::uint8_t>(one >> (8 * i));
        }
        read_shared_tile(
            type, 64, k, d, false,
            [&](std::uint32_t address, std::uint8_t* bytes) {
              std::copy_n(shared[address].data(), 16, bytes);
            },
            a);
      }
      for (int column = 0; column < 16; ++column)
        for (int at = 0; at < k; ++at)
          b.codes[static_cast<std::size_t>(column)][at] = at == column % k ? one : 0;
      std::uint32_t results[32][32], *d[32];
      for (int i = 0; i < 32; ++i) {
        d[i] = results[i];
        std::fill_n(results[i], 32, 0x7FC00000u);  // must be overwritten
      }
      tensor::WgmmaOptions options;
      options.accumulate = false;
      wgmma(shape, options, a, b, d);
      const std::uint32_t found = type == Operand::s8 ? 1 : 0x3F800000;
      for (int warp = 0; warp < 4; ++warp)
        for (int reg = 0; reg < 8; ++reg)
          for (int lane = 0; lane < 32; ++lane) {
            const auto at = tensor::wgmma_d_coordinate(32, warp, {lane, reg, 0});
            ASSERT_EQ(results[8 * warp + reg][lane], at.row % k == at.column % k ? found : 0u);
          }
    }
}

}  // namespace
}  // namespace microscale::testing
