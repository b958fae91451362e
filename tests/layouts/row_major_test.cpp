#include "layouts/row_major.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(RowMajor, counts_blocks_along_the_line_first) {
  std::int64_t expected = 0;
  for (std::int64_t line = 0; line < 5; ++line)
    for (std::int64_t block = 0; block < 7; ++block)
      EXPECT_EQ(row_major::offset(line, block, 7), expected++);
  EXPECT_EQ(row_major::bytes(5, 7), expected);
}

}  // namespace
}  // namespace microscale
