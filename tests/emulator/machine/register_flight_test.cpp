#include "emulator/machine/register_flight.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace microscale::emulator {
namespace {

using What = RegisterHazard::What;

/// Registers 0 and 1 are accumulators, 2 and 3 parts of A.
struct Small {
  alignas(64) std::uint32_t rows[4][warp_lanes];
  Program program;
  WarpRows warp;
  RegisterFlight flight;
  OpInfo multiply, read, write;

  Small() {
    for (std::uint32_t i = 0; i < 4; ++i) {
      program.matrix_registers.push_back({i, static_cast<Slot>(i * sizeof rows[0]), i < 2});
      std::fill_n(rows[i], warp_lanes, i);
    }
    warp.base[0] = reinterpret_cast<std::uint8_t*>(rows);
    multiply.matrix = {{0, true}, {1, true}, {2, false}, {3, false}};
    flight.start(program);
    flight.fence();
  }
  std::optional<What> issue(std::uint32_t shape = 1) {
    const auto hazard = flight.issue(10, multiply, shape, warp);
    return hazard ? std::optional(hazard->what) : std::nullopt;
  }
  std::optional<What> touch(std::uint32_t index, bool write_it) {
    OpInfo info;
    info.matrix = {{index, write_it}};
    const auto hazard = flight.touch(20, info);
    return hazard ? std::optional(hazard->what) : std::nullopt;
  }
  void compute(std::uint32_t value) {
    std::vector<std::uint32_t*> d;
    flight.compute(multiply, d);
    ASSERT_EQ(d.size(), 2u);
    std::fill_n(d[1], warp_lanes, d[1][0] + value);
  }
};

TEST(RegisterFlight, results_come_with_the_wait_for_their_group) {
  Small small;
  EXPECT_FALSE(small.issue());
  EXPECT_EQ(small.rows[1][7], RegisterFlight::poison);
  small.compute(100);
  small.flight.commit();
  EXPECT_FALSE(small.issue());  // on the same accumulators
  small.compute(100);
  small.flight.commit();
  small.flight.wait(1, small.warp);  // the second still has them
  EXPECT_EQ(small.rows[1][7], RegisterFlight::poison);
  EXPECT_TRUE(small.flight.unwaited());
  small.flight.wait(0, small.warp);
  EXPECT_EQ(small.rows[1][7], 201u);
  EXPECT_EQ(small.rows[2][7], 2u);
  EXPECT_FALSE(small.flight.unwaited());
  EXPECT_FALSE(small.touch(1, false));
}

TEST(RegisterFlight, may_be_delivered_before_and_is_in_flight_all_the_same) {
  Small small;
  small.issue();
  small.flight.deliver(small.warp);  // not computed yet
  EXPECT_EQ(small.rows[1][0], RegisterFlight::poison);
  small.compute(5);
  small.flight.deliver(small.warp);
  EXPECT_EQ(small.rows[1][0], 6u);
  EXPECT_EQ(small.touch(1, false), What::read_while_accumulated);
  EXPECT_FALSE(small.touch(0, true));  // said once for this group
}

TEST(RegisterFlight, tells_reads_from_writes_and_accumulators_from_fragments) {
  const auto what = [](std::uint32_t index, bool write) {
    Small small;
    small.issue();
    return small.touch(index, write);
  };
  EXPECT_EQ(what(0, false), What::read_while_accumulated);
  EXPECT_EQ(what(0, true), What::written_while_accumulated);
  EXPECT_EQ(what(2, false), What::read_while_fragment);
  EXPECT_EQ(what(2, true), What::written_while_fragment);
  Small small;
  small.issue();
  OpInfo crossed;
  crossed.matrix = {{2, true}};
  EXPECT_EQ(small.flight.issue(11, crossed, 1, small.warp)->what, What::accumulated_while_fragment);
  crossed.matrix = {{0, false}};
  EXPECT_EQ(small.flight.issue(12, crossed, 1, small.warp)->what, What::fragment_while_accumulated);
}

TEST(RegisterFlight, asks_for_a_fence_after_accesses) {
  Small small;
  small.flight.start(small.program);
  EXPECT_EQ(small.issue(), What::no_fence);
  Small read;
  read.touch(0, false);
  EXPECT_EQ(read.issue(), What::touched_since_fence);
  Small fragment;
  fragment.touch(2, false);
  EXPECT_FALSE(fragment.issue());
  Small written;
  written.touch(2, true), written.touch(2, false);
  EXPECT_EQ(written.issue(), What::touched_since_fence);
  Small fenced;
  fenced.touch(0, true), fenced.flight.fence();
  EXPECT_FALSE(fenced.issue());
  EXPECT_EQ(fenced.issue(2), What::other_shape_since_fence);
  fenced.flight.fence();
  EXPECT_FALSE(fenced.issue(1));
}

}  // namespace
}  // namespace microscale::emulator
