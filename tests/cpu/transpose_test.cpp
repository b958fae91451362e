#include "seam/transpose.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace microscale {
namespace {

template <class T>
void check(std::int64_t rows, std::int64_t cols, std::int64_t gap) {
  const std::int64_t from_stride = cols + gap, to_stride = rows + 2 * gap;
  std::vector<T> from(static_cast<std::size_t>(rows * from_stride + 1)),
      to(static_cast<std::size_t>(cols * to_stride + 1), T{7}), want = to;
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(0x9E3779B1u * (i + 1));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      want[static_cast<std::size_t>(c * to_stride + r)] =
          from[static_cast<std::size_t>(r * from_stride + c)];
  for (const bool past_cache : {false, true}) {
    std::vector<T> got = to;
    transpose(from.data(), from_stride, rows, cols, got.data(), to_stride, past_cache);
    EXPECT_EQ(got, want) << sizeof(T) << " bytes, " << rows << " x " << cols << ", gap " << gap;
  }
}

// Below, at and beyond a vector's, a block's and a tile's length; what is between rows stays.
TEST(CpuTranspose, moves_every_element_and_no_other) {
  for (const std::int64_t rows : {0, 1, 3, 8, 31, 64, 129, 300})
    for (const std::int64_t cols : {0, 1, 5, 8, 64, 127, 260})
      for (const std::int64_t gap : {0, 3}) {
        check<std::uint16_t>(rows, cols, gap);
        check<std::uint32_t>(rows, cols, gap);
      }
}

}  // namespace
}  // namespace microscale
