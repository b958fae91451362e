#include "formats/integers.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(Integers, divisions_round_up) {
  for (std::int64_t a = 0; a < 50; ++a)
    for (std::int64_t b = 1; b < 20; ++b) {
      const std::int64_t pieces = ceil_div(a, b), length = round_up(a, b);
      EXPECT_GE(pieces * b, a);
      EXPECT_LT((pieces - 1) * b, a);
      EXPECT_EQ(length, pieces * b);
    }
}

}  // namespace
}  // namespace microscale
