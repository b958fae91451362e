#include "emulator/memory/record.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator {

TEST(RecordLog, numbers_records_from_one_over_many_chunks) {
  RecordLog log;
  Record record;
  for (std::uint32_t i = 1; i <= 10000; ++i) {
    record.instruction = i;
    ASSERT_EQ(log.add(record), i);
  }
  EXPECT_EQ(log[1].instruction, 1u);
  EXPECT_EQ(log[9000].instruction, 9000u);
  EXPECT_EQ(log.size(), 10000u);
  log.clear();
  EXPECT_EQ(log.add(record), 1u);
}

TEST(RecordCache, makes_one_record_of_equal_ones) {
  RecordLog log;
  RecordCache cache;
  const auto make = [] { return Record{}; };
  RecordCache::Key key;
  key.instruction = 7;
  const std::uint32_t id = cache.number(key, log, make);
  EXPECT_EQ(cache.number(key, log, make), id);
  key.time = 2;
  EXPECT_NE(cache.number(key, log, make), id);
  EXPECT_EQ(log.size(), 2u);
}

}  // namespace microscale::emulator
