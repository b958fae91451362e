#include "emulator/memory/lane_loops.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>

#include "emulator/memory/access.hpp"

namespace microscale::emulator {

class LaneLoopsOf : public ::testing::TestWithParam<const LaneLoops* (*)()> {
 protected:
  const LaneLoops& loops = *GetParam()();
  std::array<Cell, 100> cells{}, lanes{};
};

TEST_P(LaneLoopsOf, survey_says_what_addresses_share) {
  std::array<std::uint64_t, 32> address{}, offset{};
  for (std::size_t i = 0; i < 32; ++i) address[i] = 10000 + 8 * i;
  Survey found = loops.survey(address.data(), 9000, 1248, 8, offset.data());
  EXPECT_TRUE(found.fits && found.one_page);
  EXPECT_EQ(offset[3], 1024u);
  EXPECT_FALSE(loops.survey(address.data(), 9000, 1247, 8, offset.data()).fits);
  EXPECT_TRUE(loops.consecutive(address.data(), 8));
  EXPECT_FALSE(loops.consecutive(address.data(), 4));
  for (const std::size_t lane : {0u, 13u, 31u}) {
    auto other = address;
    other[lane] = 8992;  // before the beginning
    found = loops.survey(other.data(), 9000, 1248, 8, offset.data());
    EXPECT_FALSE(found.fits || loops.consecutive(other.data(), 8)) << lane;
    other[lane] = address[lane] + 2;
    found = loops.survey(other.data(), 9000, 4096, 8, offset.data());
    EXPECT_FALSE(found.fits) << lane;
    EXPECT_TRUE(found.one_page) << lane;
    other[lane] += 4094;
    found = loops.survey(other.data(), 9000, 9999, 8, offset.data());
    EXPECT_TRUE(found.fits) << lane;
    EXPECT_FALSE(found.one_page || loops.consecutive(other.data(), 8)) << lane;
  }
}

TEST_P(LaneLoopsOf, uniform_rows_name_one_record_each) {
  std::array<Cell, 32> one{}, other{};
  for (std::uint32_t i = 0; i < 32; ++i) one[i] = cell_of(7, i), other[i] = cell_of(9, i);
  EXPECT_TRUE(loops.uniform(one.data(), other.data()));
  for (const std::size_t at : {0u, 9u, 31u}) {
    auto broken = one;
    broken[at] = cell_of(6, 3);
    EXPECT_FALSE(loops.uniform(broken.data(), other.data())) << at;
    EXPECT_FALSE(loops.uniform(other.data(), broken.data())) << at;
  }
}

TEST_P(LaneLoopsOf, cells_are_gathered_and_scattered_by_offset) {
  std::array<std::uint64_t, 32> offset{};
  std::array<std::uint32_t, 32> index{};
  for (std::size_t i = 0; i < 32; ++i) offset[i] = 5 * 4096 + 12 * i;
  loops.cells_at(offset.data(), 2, index.data());
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(index[i], 3 * i);
  for (std::uint32_t i = 0; i < 100; ++i) cells[i] = 1000 + i;
  for (const std::uint32_t count : {1u, 7u, 8u, 19u, 32u}) {
    lanes.fill(77);
    loops.gather(cells.data(), index.data(), count, lanes.data());
    for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(lanes[i], 1000 + 3 * i);
    EXPECT_EQ(lanes[count], 77u);
    for (std::uint32_t i = 0; i < count; ++i) lanes[i] = 500 + i;
    EXPECT_TRUE(loops.scatter(cells.data(), index.data(), count, lanes.data()));
    for (std::uint32_t i = 0; i < 100; ++i)
      EXPECT_EQ(cells[i], i % 3 == 0 && i / 3 < count ? 500 + i / 3 : 1000 + i);
    for (std::uint32_t i = 0; i < 100; ++i) cells[i] = 1000 + i;
    const std::uint32_t before = index[count - 1];
    index[count - 1] = index[0];
    EXPECT_EQ(loops.scatter(cells.data(), index.data(), count, lanes.data()), count == 1) << count;
    index[count - 1] = before;
    for (std::uint32_t i = 0; i < 100; ++i) cells[i] = 1000 + i;
  }
}

TEST_P(LaneLoopsOf, run_ends_where_another_record_begins) {
  for (const std::uint32_t end : {0u, 1u, 7u, 8u, 31u, 32u, 33u, 64u, 99u, 100u}) {
    for (std::uint32_t i = 0; i < 100; ++i) cells[i] = cell_of(i < end ? 5 : 4, i % 33);
    EXPECT_EQ(loops.run_end(cells.data(), 0, 100, 5), end);
    if (end > 3) {
      EXPECT_EQ(loops.run_end(cells.data(), 3, 100, 5), end);
    }
  }
}

TEST_P(LaneLoopsOf, fill_writes_as_many_cells_and_their_lanes_are_found_again) {
  for (const std::uint32_t count : {1u, 8u, 9u, 32u, 99u}) {
    cells.fill(77);
    for (std::uint32_t i = 0; i < 100; ++i) lanes[i] = i * 7 % 32;
    loops.fill(cells.data(), lanes.data(), count, 123);
    for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(cells[i], cell_of(123, lanes[i]));
    EXPECT_EQ(cells[count], 77u);
    EXPECT_TRUE(loops.same_lanes(cells.data(), lanes.data(), count));
    for (const std::uint32_t at : {0u, count / 2, count - 1}) {
      const Cell before = cells[at];
      cells[at] = cell_of(123, several_lanes);
      EXPECT_FALSE(loops.same_lanes(cells.data(), lanes.data(), count)) << at;
      cells[at] = before;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LaneLoopsOf,
                         ::testing::Values(
                             +[] { return &lane_loops(); },
                             +[] { return &portable_lane_loops(); }));

}  // namespace microscale::emulator
