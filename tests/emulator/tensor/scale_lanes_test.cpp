// Which lane and byte supplies which scale: formulas, layouts in shape:stride form, probes.
#include <gtest/gtest.h>

#include "emulator/tensor/probe.hpp"
#include "support/cute_layout.hpp"
#include "support/mma_layouts.hpp"

namespace microscale::testing {
namespace {

using tensor::Kind, tensor::MmaShape, tensor::Operand, tensor::Probed, tensor::ScaleSelector;

TEST(ScaleLanes, formulas_layouts_and_probes_agree_for_every_selector) {
  for (const Kind kind : {Kind::mxf8f6f4, Kind::mxf4, Kind::mxf4nvf4}) {
    const bool packed = kind != Kind::mxf8f6f4;
    const MmaShape shape = shape_of(kind, packed ? 64 : 32, Operand::e2m1, Operand::e2m1);
    const CuteLayout a("((2,2,8),4):((8,0,1),16)"), b("((4,8),4):((0,1),8)");
    for (int byte = 0; byte < 4; byte += shape.scale_vector)
      for (int thread = 0; thread < 4; ++thread) {
        const ScaleSelector select{byte, thread};
        SCOPED_TRACE(spelling(shape) + " byte " + std::to_string(byte) + " thread " +
                     std::to_string(thread));
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
