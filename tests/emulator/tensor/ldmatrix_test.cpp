// ldmatrix and stmatrix: every form against a layout or a plain description of it.
#include <gtest/gtest.h>

#include "emulator/tensor/ldmatrix.hpp"
#include "microscale/error.hpp"
#include "support/cute_layout.hpp"

namespace microscale::testing {
namespace {

namespace tensor = emulator::tensor;
using tensor::MatrixMove, tensor::MatrixRows, tensor::MatrixShape, tensor::RowFormat;

MatrixRows numbered() {
  MatrixRows rows;
  for (std::size_t row = 0; row < 32; ++row)
    for (std::size_t byte = 0; byte < 16; ++byte)
      rows[row][byte] = static_cast<std::uint8_t>(row * 37 + byte * 11 + 1);
  return rows;
}

struct Registers {
  std::uint32_t word[4][32] = {};
  std::uint32_t* rows[4] = {word[0], word[1], word[2], word[3]};
};

MatrixMove load(std::vector<std::string_view> modifiers) {
  return tensor::ldmatrix_move(modifiers);
}

// Bits of the 32 rows of 16 bytes, laid end to end, as they reach lane and bit of its registers.
void expect_bits(const MatrixMove& move, const char* layout_text) {
  const CuteLayout layout(layout_text);
  const MatrixRows rows = numbered();
  Registers d;
  ldmatrix(move, rows, d.rows);
  ASSERT_EQ(layout.size(1), 32 * registers_of(move));
  for (int lane = 0; lane < 32; ++lane)
    for (int bit = 0; bit < layout.size(1); ++bit) {
      const int from = layout({lane, bit});
      const int wanted =
          rows[static_cast<std::size_t>(from / 128)][static_cast<std::size_t>(from / 8 % 16)] >>
              (from % 8) &
          1;
      ASSERT_EQ(static_cast<int>(d.word[bit / 32][lane] >> (bit % 32) & 1), wanted)
          << lane << " " << bit;
    }
}

TEST(Ldmatrix, b16_forms_follow_their_layouts) {
  expect_bits(load({"sync", "aligned", "m8n8", "x1", "shared", "b16"}), "(32,32):(32,1)");
  expect_bits(load({"m8n8", "x2", "b16"}), "(32,(32,2)):(32,(1,1024))");
  expect_bits(load({"m8n8", "x4", "shared::cta", "b16"}), "(32,(32,4)):(32,(1,1024))");
  expect_bits(load({"m8n8", "x1", "trans", "b16"}), "((4,8),(16,2)):((256,16),(1,128))");
  expect_bits(load({"m8n8", "x4", "trans", "b16"}), "((4,8),(16,2,4)):((256,16),(1,128,1024))");
}

TEST(Ldmatrix, m16n16_transposes_bytes) {
  // Lane 4c + q: rows 4q to 4q + 3 of columns c and c + 8; then the second matrix.
  expect_bits(load({"m16n16", "x1", "trans", "b8"}), "((4,8),(8,4,2)):((512,8),(1,128,64))");
  expect_bits(load({"m16n16", "x2", "trans", "b8"}), "((4,8),(8,4,2,2)):((512,8),(1,128,64,2048))");
}

TEST(Ldmatrix, packed_formats_widen_every_element_to_the_low_bits_of_a_byte) {
  const MatrixRows rows = numbered();
  Registers d;
  ldmatrix(load({"m8n16", "x2", "b8x16", "b4x16_p64"}), rows, d.rows);
  for (int lane = 0; lane < 32; ++lane)
    for (int reg = 0; reg < 2; ++reg)
      for (int item = 0; item < 4; ++item) {
        const int element = 4 * (lane % 4) + item;
        const int byte = rows[static_cast<std::size_t>(8 * reg + lane / 4)]
                             [static_cast<std::size_t>(element / 2)];
        EXPECT_EQ(d.word[reg][lane] >> (8 * item) & 0xFF,
                  static_cast<std::uint32_t>(element % 2 ? byte >> 4 : byte & 15));
      }
  ldmatrix(load({"m8n16", "x4", "b8x16", "b6x16_p32"}), rows, d.rows);
  for (int lane = 0; lane < 32; ++lane)
    for (int item = 0; item < 4; ++item) {
      std::uint32_t wanted = 0;
      for (int bit = 0; bit < 6; ++bit) {
        const int at = 6 * (4 * (lane % 4) + item) + bit;
        wanted |= static_cast<std::uint32_t>(
            (rows[static_cast<std::size_t>(24 + lane / 4)][static_cast<std::size_t>(at / 8)] >>
                 (at % 8) &
             1)
            << bit);
      }
      EXPECT_EQ(d.word[3][lane] >> (8 * item) & 0xFF, wanted);
    }
}

TEST(Stmatrix, undoes_ldmatrix) {
  for (const bool transposed : {false, true})
    for (const int count : {1, 2, 4}) {
      const MatrixMove move{MatrixShape::m8n8, RowFormat::b16, count, transposed};
      const MatrixRows rows = numbered();
      MatrixRows back{};
      Registers d;
      ldmatrix(move, rows, d.rows);
      stmatrix(move, d.rows, back);
      for (int row = 0; row < 8 * count; ++row)
        EXPECT_EQ(back[static_cast<std::size_t>(row)], rows[static_cast<std::size_t>(row)]);
      if (count < 4) {
        EXPECT_EQ(back[31], (std::array<std::uint8_t, 16>{}));
      }
    }
}

TEST(Ldmatrix, counts_registers_and_lanes) {
  EXPECT_EQ(address_lanes(load({"m16n16", "x1", "trans", "b8"})), 16);
  EXPECT_EQ(registers_of(load({"m16n16", "x2", "trans", "b8"})), 4);
  EXPECT_EQ(address_lanes(load({"m8n8", "x2", "b16"})), 16);
}

TEST(Ldmatrix, refuses_forms_that_do_not_exist) {
  using Words = std::vector<std::string_view>;
  for (const Words& words :
       {Words{"m8n8", "x4"}, Words{"m8n8", "x3", "b16"}, Words{"m8n8", "x1", "b8"},
        Words{"m16n16", "x1", "b8"}, Words{"m16n16", "x4", "trans", "b8"},
        Words{"m8n16", "x1", "trans", "b8x16", "b4x16_p64"}, Words{"m8n16", "x1", "b4x16_p64"},
        Words{"m8n8", "x1", "b16", "row"}})
    EXPECT_THROW(tensor::ldmatrix_move(words), Error);
  EXPECT_THROW(tensor::stmatrix_move(Words{"m16n8", "x1", "trans", "b8"}), Error);
}

}  // namespace
}  // namespace microscale::testing
