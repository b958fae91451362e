// Bytes that nobody wrote, as a load notes them: which of which lane.
#include "emulator/memory/undefined_bytes.hpp"

#include <gtest/gtest.h>

#include "emulator/memory/small_machine.hpp"

namespace microscale::emulator {
namespace {

constexpr Agent reader{0, 0, 10, 0};

TEST(UndefinedBytes, are_found_by_the_bytes_that_a_register_takes) {
  UndefinedBytes undefined;
  undefined.add(3, 7);
  undefined.add(3, 0);
  undefined.add(5, 4);
  EXPECT_EQ(undefined.lanes, 1u << 3 | 1u << 5);
  EXPECT_EQ(undefined.among(0x0f), 1u << 3);
  EXPECT_EQ(undefined.among(0xf0), 1u << 3 | 1u << 5);
  EXPECT_EQ(undefined.among(0x06), 0u);
}

/// Lanes 0 to 9 wrote their 4 bytes of shared memory.
struct PartlyWritten {
  SmallMachine machine;
  std::unique_ptr<ClusterMemory> memory = machine.cluster();

  PartlyWritten() { store(*memory, reader, strided(shared_window, 4), 4, 0x3ff, 1); }
  UndefinedBytes undefined_of(const Addresses& at, int bytes) {
    UndefinedBytes undefined;
    LaneWords words;
    memory->load(reader, {.lanes = all_lanes, .bytes = bytes, .address = at.data()}, words,
                 &undefined);
    return undefined;
  }
};

TEST(UndefinedBytes, of_a_load_are_no_finding_where_they_are_noted) {
  PartlyWritten written;
  const UndefinedBytes single = written.undefined_of(strided(shared_window, 4), 4);
  EXPECT_EQ(single.lanes, ~0x3ffu);
  EXPECT_EQ(single.lane, 10);
  EXPECT_NE(single.message.find("lane 10 reads 4 bytes"), std::string::npos) << single.message;
  const UndefinedBytes pairs = written.undefined_of(strided(shared_window + 32, 8), 8);
  EXPECT_EQ(pairs.lanes, ~1u);  // bytes 32 to 39 are written
  EXPECT_EQ(written.machine.count(FindingKind::uninitialised_memory), 0);
}

TEST(UndefinedBytes, of_one_place_are_those_of_every_lane_that_reads_it) {
  PartlyWritten written;
  Addresses at = strided(shared_window, 0);
  for (std::size_t lane = 8; lane < 16; ++lane) at[lane] = shared_window + 64;
  EXPECT_EQ(written.undefined_of(at, 4).lanes, 0xff00u);
}

TEST(UndefinedBytes, are_a_finding_where_nobody_notes_them) {
  PartlyWritten written;
  load(*written.memory, reader, strided(shared_window, 4), 4);
  EXPECT_GE(written.machine.findings.count(FindingKind::uninitialised_memory), 1);
}

}  // namespace
}  // namespace microscale::emulator
