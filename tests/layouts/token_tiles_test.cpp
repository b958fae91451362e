// Where 16-bit rows lie for wgmma.
#include "layouts/token_tiles.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace microscale::token_tiles {
namespace {

TEST(TokenTiles, swizzle_pieces_within_a_row) {
  std::set<std::int64_t> offsets;
  for (std::int64_t row = 0; row < 8; ++row)
    for (std::int64_t piece = 0; piece < 8; ++piece) {
      const std::int64_t at = piece_offset(row, piece);
      EXPECT_EQ(at / 128, row);
      EXPECT_EQ(at % 128 / 16, piece ^ row);
      offsets.insert(at);
    }
  EXPECT_EQ(offsets.size(), 64u);
  EXPECT_EQ(piece_offset(11, 2), piece_offset(3, 2));  // the row in its group
}

TEST(TokenTiles, experts_never_share_a_group_and_stay_inside) {
  for (std::int64_t seed = 0; seed < 500; ++seed) {
    std::vector<std::int64_t> offsets{seed % 3};
    std::int64_t state = seed;
    for (int expert = 0; expert < 6; ++expert) {
      state = (state * 1103515245 + 12345) % 2147483648;
      offsets.push_back(offsets.back() + state / 65536 % 21);
    }
    const std::int64_t rows = offsets.back() + seed % 2;
    std::int64_t end = 0;
    for (std::size_t expert = 0; expert < 6; ++expert) {
      const std::int64_t first =
          first_group_of_expert(static_cast<std::int64_t>(expert), offsets[expert]);
      EXPECT_GE(first, end);
      end = first + groups(offsets[expert + 1] - offsets[expert]);
    }
    EXPECT_LE(end, all_groups(rows, 6, true));
  }
}

TEST(TokenTiles, fill_rows_and_k_up) {
  EXPECT_EQ(bytes(9, 2, false, 65), 2 * 2 * 2 * 1024);
  EXPECT_EQ(bytes(8, 1, false, 64), 8 * 128);
  EXPECT_EQ(first_group(3, 9), 6);
}

}  // namespace
}  // namespace microscale::token_tiles
