// Probes run through the instruction find the maps of the formulas.
#include <gtest/gtest.h>

#include "emulator/tensor/probe.hpp"
#include "support/mma_layouts.hpp"

namespace microscale::testing {
namespace {

using tensor::MmaShape, tensor::Result;

TEST(Probe, probes_of_the_instruction_find_the_same_maps) {
  for (const MmaLayouts& each : mma_layouts()) {
    SCOPED_TRACE(spelling(each.shape));
    for (const auto generation : {tensor::Generation::hopper, tensor::Generation::blackwell}) {
      EXPECT_EQ(probe_a(each.shape, generation), map_a(each.shape));
      EXPECT_EQ(probe_b(each.shape, generation), map_b(each.shape));
      EXPECT_EQ(probe_d(each.shape, generation), map_d(each.shape));
    }
  }
}

TEST(Probe, f16_accumulators_hold_two_neighbours) {
  MmaShape shape;
  shape.c = shape.d = Result::f16;
  EXPECT_EQ(probe_d(shape, tensor::Generation::blackwell), map_d(shape));
  EXPECT_EQ(tensor::d_coordinate(16, {5, 1, 1}), (tensor::Coordinate{9, 3}));
}

}  // namespace
}  // namespace microscale::testing
