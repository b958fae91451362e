// Who holds what of a wmma matrix, and what spellings are refused.
#include "emulator/tensor/wmma.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "microscale/error.hpp"

namespace microscale::testing {
namespace {

namespace tensor = emulator::tensor;
using tensor::WmmaMatrix, tensor::WmmaShape;

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t dot = text.find('.');
    words.push_back(text.substr(0, dot));
    text.remove_prefix(dot == std::string_view::npos ? text.size() : dot + 1);
  }
  return words;
}

WmmaShape shape_of(std::string_view text) { return tensor::wmma_shape(split(text)); }

TEST(WmmaFragments, hold_every_element_as_often_as_registers_say) {
  for (const char* text :
       {"mma.row.col.m16n16k16.f32.f32", "mma.row.col.m32n8k16.f16.f16",
        "mma.row.col.m8n32k16.f32.f16", "mma.row.col.m32n8k16.f32.bf16.bf16.f32",
        "mma.row.col.m8n32k16.f32.bf16.bf16.f32", "mma.row.col.m16n16k8.f32.tf32.tf32.f32",
        "mma.row.col.m8n32k16.s32.u8.u8.s32", "mma.row.col.m8n8k32.s32.s4.s4.s32",
        "mma.row.col.m8n8k4.f64.f64.f64.f64"}) {
    const WmmaShape shape = shape_of(text);
    for (const WmmaMatrix matrix : {WmmaMatrix::a, WmmaMatrix::b, WmmaMatrix::c, WmmaMatrix::d}) {
      const int bits = wmma_element_bits(shape, matrix), items = bits >= 32 ? 1 : 32 / bits;
      const tensor::Coordinate extent = wmma_extent(shape, matrix);
      std::multiset<std::pair<int, int>> held;
      for (int lane = 0; lane < 32; ++lane)
        for (int reg = 0; reg < wmma_registers(shape, matrix); ++reg)
          for (int item = 0; item < items; ++item) {
            const tensor::Coordinate at = wmma_place(shape, matrix, {lane, reg, item});
            held.insert({at.row, at.column});
          }
      const int times = wmma_registers(shape, matrix) * 32 * items / (extent.row * extent.column);
      EXPECT_GE(times, 1) << text;
      for (int row = 0; row < extent.row; ++row)
        for (int column = 0; column < extent.column; ++column)
          EXPECT_EQ(held.count({row, column}), static_cast<std::size_t>(times))
              << text << " " << row << "," << column;
    }
  }
}

// As Ampere and later have it, which programs that look into fragments rely on.
TEST(WmmaFragments, of_accumulators_are_two_of_mma_side_by_side) {
  const WmmaShape shape = shape_of("mma.row.col.m16n16k16.f32.f32");
  EXPECT_EQ(wmma_place(shape, WmmaMatrix::c, {5, 0, 0}), (tensor::Coordinate{1, 2}));
  EXPECT_EQ(wmma_place(shape, WmmaMatrix::c, {5, 3, 0}), (tensor::Coordinate{9, 3}));
  EXPECT_EQ(wmma_place(shape, WmmaMatrix::c, {5, 4, 0}), (tensor::Coordinate{1, 10}));
  EXPECT_EQ(wmma_place(shape, WmmaMatrix::a, {5, 6, 1}), (tensor::Coordinate{1, 11}));
}

TEST(WmmaShape, refuses_what_ptx_has_not) {
  for (const char* text :
       {"mma.row.col.m16n16k8.f32.f32", "mma.row.col.m8n8k4.f32.f32", "mma.row.m16n16k16.f32.f32",
        "mma.row.col.m16n16k16.f32.s8.s8.s32", "mma.row.col.m16n16k16.f16.bf16.bf16.f16",
        "mma.row.col.m16n16k16.s32.s8.u8.s32", "mma.col.col.m8n8k32.s32.s4.s4.s32",
        "mma.row.col.m8n8k128.s32.b1.b1.s32", "mma.rz.row.col.m16n16k16.f32.f32",
        "mma.row.col.m16n16k16.f32.bf16.bf16", "mma.row.col.f32.f32"})
    EXPECT_THROW(shape_of(text), Error) << text;
  for (const char* text : {"load.a.row.f16", "load.a.m16n16k16.f16", "load.b.row.m8n8k32.s4",
                           "load.c.row.m8n8k4.f32", "load.a.row.m16n16k16.f32"})
    EXPECT_THROW(tensor::wmma_move(split(text)), Error) << text;
}

}  // namespace
}  // namespace microscale::testing
