// Fragment and scale maps derived three ways: formulas, layouts written as shape:stride, and probes run
// through the instruction.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "emulator/tensor/mma_fragments.hpp"
#include "emulator/tensor/probe.hpp"
#include "support/cute_layout.hpp"
#include "support/mma_cases.hpp"

namespace microscale::testing {
namespace {

using tensor::Kind, tensor::MmaShape, tensor::Operand, tensor::Probed, tensor::Result, tensor::ScaleSelector,
    tensor::ScaleType;

MmaShape shape_of(Kind kind, int k, Operand a, Operand b) {
  MmaShape shape;
  shape.kind = kind, shape.k = k, shape.a = a, shape.b = b;
  if (a == Operand::s8) shape.c = shape.d = Result::s32;
  if (kind >= Kind::mxf8f6f4) {
    shape.scale = kind == Kind::mxf4nvf4 ? ScaleType::ue4m3 : ScaleType::ue8m0;
    shape.scale_vector = kind == Kind::mxf8f6f4 ? 1 : kind == Kind::mxf4 ? 2 : 4;
  }
  return shape;
}

/// Thread and value modes to row + 16 k (A), column + 8 k (B), row + 16 column (D).
struct Layouts {
  MmaShape shape;
  const char *a, *b, *d;
};

const std::vector<Layouts>& layouts() {
  static const char* d32 = "((4,8),(2,2)):((32,1),(16,8))";
  static const std::vector<Layouts> all = {
      {shape_of(Kind::plain, 8, Operand::f16, Operand::f16), "((4,8),(2,2)):((32,1),(16,8))",
       "((4,8),2):((16,1),8)", d32},
      {shape_of(Kind::plain, 16, Operand::bf16, Operand::bf16), "((4,8),(2,2,2)):((32,1),(16,8,128))",
       "((4,8),(2,2)):((16,1),(8,64))", d32},
      {shape_of(Kind::plain, 4, Operand::tf32, Operand::tf32), "((4,8),2):((16,1),8)",
       "((4,8),1):((8,1),0)", d32},
      {shape_of(Kind::plain, 8, Operand::tf32, Operand::tf32), "((4,8),(2,2)):((16,1),(8,64))",
       "((4,8),2):((8,1),32)", d32},
      {shape_of(Kind::plain, 16, Operand::s8, Operand::s8), "((4,8),(4,2)):((64,1),(16,8))",
       "((4,8),4):((32,1),8)", d32},
      {shape_of(Kind::plain, 32, Operand::e4m3, Operand::e5m2), "((4,8),(4,2,2)):((64,1),(16,8,256))",
       "((4,8),(4,2)):((32,1),(8,128))", d32},
      {shape_of(Kind::f8f6f4, 32, Operand::e3m2, Operand::e2m1), "((4,8),(4,2,2)):((64,1),(16,8,256))",
       "((4,8),(4,2)):((32,1),(8,128))", d32},
      {shape_of(Kind::mxf8f6f4, 32, Operand::e2m1, Operand::e2m3), "((4,8),(4,2,2)):((64,1),(16,8,256))",
       "((4,8),(4,2)):((32,1),(8,128))", d32},
      {shape_of(Kind::mxf4, 64, Operand::e2m1, Operand::e2m1), "((4,8),(8,2,2)):((128,1),(16,8,512))",
       "((4,8),(8,2)):((64,1),(8,256))", d32},
      {shape_of(Kind::mxf4nvf4, 64, Operand::e2m1, Operand::e2m1),
       "((4,8),(8,2,2)):((128,1),(16,8,512))", "((4,8),(8,2)):((64,1),(8,256))", d32},
  };
  return all;
}

/// A map's slots as (lane, number in the lane) against a layout; `lines` is the size of its first mode.
void expect_layout(const std::vector<Probed>& map, const char* text, int items, int lines, bool line_is_row) {
  const CuteLayout layout(text);
  ASSERT_EQ(static_cast<int>(map.size()), 32 * layout.size(1));
  for (const Probed& probed : map) {
    const int offset = layout({probed.slot.lane, probed.slot.reg * items + probed.slot.item});
    const int line = line_is_row ? probed.at.row : probed.at.column;
    const int other = line_is_row ? probed.at.column : probed.at.row;
    ASSERT_EQ(line + lines * other, offset) << "lane " << probed.slot.lane;
  }
}

TEST(MmaFragments, formulas_and_shape_stride_layouts_agree) {
  for (const Layouts& each : layouts()) {
    SCOPED_TRACE(spelling(each.shape));
    expect_layout(map_a(each.shape), each.a, 32 / container_bits(each.shape.kind, each.shape.a), 16, true);
    expect_layout(map_b(each.shape), each.b, 32 / container_bits(each.shape.kind, each.shape.b), 8, false);
    expect_layout(map_d(each.shape), each.d, 1, 16, true);
  }
}

TEST(MmaFragments, probes_of_the_instruction_find_the_same_maps) {
  for (const Layouts& each : layouts()) {
    SCOPED_TRACE(spelling(each.shape));
    for (const auto generation : {tensor::Generation::hopper, tensor::Generation::blackwell}) {
      EXPECT_EQ(probe_a(each.shape, generation), map_a(each.shape));
      EXPECT_EQ(probe_b(each.shape, generation), map_b(each.shape));
      EXPECT_EQ(probe_d(each.shape, generation), map_d(each.shape));
    }
  }
}

TEST(MmaFragments, f16_accumulators_hold_two_neighbours) {
  MmaShape shape;
  shape.c = shape.d = Result::f16;
  EXPECT_EQ(probe_d(shape, tensor::Generation::blackwell), map_d(shape));
  EXPECT_EQ(tensor::d_coordinate(16, {5, 1, 1}), (tensor::Coordinate{9, 3}));
}

TEST(MmaFragments, every_element_has_one_slot_and_the_inverse_finds_it) {
  for (const int bits : {4, 8, 16, 32}) {
    const int k = 256 / bits;
    std::set<std::tuple<int, int, int>> seen;
    for (int row = 0; row < 16; ++row)
      for (int at = 0; at < k; ++at) {
        const tensor::Slot slot = tensor::a_slot(bits, {row, at});
        EXPECT_EQ(tensor::a_coordinate(bits, slot), (tensor::Coordinate{row, at}));
        EXPECT_TRUE(seen.emplace(slot.lane, slot.reg, slot.item).second);
        if (row >= 8) continue;
        EXPECT_EQ(tensor::b_coordinate(bits, tensor::b_slot(bits, {at, row})), (tensor::Coordinate{at, row}));
      }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(16 * k));
  }
}

TEST(ScaleLanes, formulas_layouts_and_probes_agree_for_every_selector) {
  for (const Kind kind : {Kind::mxf8f6f4, Kind::mxf4, Kind::mxf4nvf4}) {
    const bool packed = kind != Kind::mxf8f6f4;
    const MmaShape shape = shape_of(kind, packed ? 64 : 32, Operand::e2m1, Operand::e2m1);
    const CuteLayout a("((2,2,8),4):((8,0,1),16)"), b("((4,8),4):((0,1),8)");
    for (int byte = 0; byte < 4; byte += shape.scale_vector)
      for (int thread = 0; thread < 4; ++thread) {
        const ScaleSelector select{byte, thread};
        SCOPED_TRACE(spelling(shape) + " byte " + std::to_string(byte) + " thread " + std::to_string(thread));
        EXPECT_EQ(probe_b_scales(shape, select), map_b_scales(shape, select));
        for (const Probed& each : map_b_scales(shape, select)) {
          if (each.at.row < 0) continue;
          EXPECT_EQ(b({each.slot.lane, each.at.row}), each.at.column + 8 * each.at.row);
        }
        if (thread > 1) continue;
        EXPECT_EQ(probe_a_scales(shape, select), map_a_scales(shape, select));
        for (const Probed& each : map_a_scales(shape, select)) {
          if (each.at.row < 0) continue;
          EXPECT_EQ(a({each.slot.lane, each.at.column}), each.at.row + 16 * each.at.column);
        }
      }
  }
}

// The table of 32 lanes that one probe a lane gives: row lane/4 from lanes 0 of 4, lane/4 + 8 from
// lanes 1, none from lanes 2 and 3; columns from lanes 0.
TEST(ScaleLanes, the_32_lane_table) {
  const MmaShape shape = shape_of(Kind::mxf8f6f4, 32, Operand::e2m1, Operand::e2m1);
  const auto a = probe_a_scales(shape, {0, 0}), b = probe_b_scales(shape, {0, 0});
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane % 4 == 0 ? lane / 4 : lane % 4 == 1 ? lane / 4 + 8 : -1;
    EXPECT_EQ(a[static_cast<std::size_t>(4 * lane)].at.row, row);
    EXPECT_EQ(b[static_cast<std::size_t>(4 * lane)].at.column, lane % 4 == 0 ? lane / 4 : -1);
    for (int byte = 1; byte < 4; ++byte)
      EXPECT_EQ(a[static_cast<std::size_t>(4 * lane + byte)].at.row, -1);
  }
}

}  // namespace
}  // namespace microscale::testing
