// By hand: mean, dead columns, shrinking, damping, which triangle counts.
#include "formats/hessian.hpp"

#include <gtest/gtest.h>

#include <array>

namespace microscale {
namespace {

TEST(SoundHessian, fills_shrinks_and_damps) {
  const std::array<float, 9> h{4, 2, 7, /**/ 1, 2, 7, /**/ 7, 7, 0};
  const SoundHessian sound(h, 3, 0.25, 0.5);
  EXPECT_EQ(sound.mean(), 3);  // of 4 and 2
  EXPECT_EQ(sound.dead(), 1);
  EXPECT_EQ(sound(0, 0), 4 + 1.5);
  EXPECT_EQ(sound(1, 1), 2 + 1.5);
  EXPECT_EQ(sound(2, 2), 3 + 1.5);
  EXPECT_EQ(sound(0, 1), 1.5);
  EXPECT_EQ(sound(1, 0), 1.5);  // the number above the diagonal
  EXPECT_EQ(sound(0, 2), 0);
  EXPECT_EQ(sound.energy(2), 3);
}

TEST(SoundHessian, is_the_identity_where_nothing_came) {
  const std::array<float, 4> h{};
  const SoundHessian sound(h, 2, 0, 0);
  EXPECT_EQ(sound.mean(), 1);
  EXPECT_EQ(sound(0, 0), 1);
  EXPECT_EQ(sound(0, 1), 0);
}

}  // namespace
}  // namespace microscale
