#include "emulator/memory/async.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator {

TEST(AsyncCopy, poisons_its_destination_until_it_lands) {
  std::uint8_t memory[16] = {};
  AsyncCopy copy;
  copy.data = {1, 2, 3, 4};
  copy.pieces = {{memory + 8, 0, 2}, {memory, 2, 2}};
  copy.poison();
  EXPECT_EQ(memory[0], poison_byte);
  EXPECT_EQ(memory[9], poison_byte);
  EXPECT_EQ(memory[2], 0);
  copy.land();
  EXPECT_EQ(memory[8], 1);
  EXPECT_EQ(memory[9], 2);
  EXPECT_EQ(memory[1], 4);
}

}  // namespace microscale::emulator
