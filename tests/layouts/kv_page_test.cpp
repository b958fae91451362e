#include "layouts/kv_page.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

using namespace kv_page;

TEST(KvPage, has_the_offsets_of_the_picture) {
  constexpr Record r = record(KvFormat::nvfp4, 16, 128);
  static_assert(r.k_codes == 0 && r.k_scales == 1024 && r.v_codes == 1152 && r.v_scales == 2176);
  static_assert(r.bytes == 2304);
  EXPECT_EQ(record(KvFormat::mxfp4, 64, 128).bytes, 2 * 64 * (64 + 4));
  EXPECT_EQ(record(KvFormat::mxfp8, 32, 96).bytes, 2 * 32 * (96 + 3));
  EXPECT_EQ(record(KvFormat::fp8, 32, 256).bytes, 2 * 32 * 256);
}

TEST(KvPage, aligns_every_part_for_every_size) {
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8, KvFormat::fp8})
    for (std::int64_t d = d_step; d <= largest_d; d += d_step)
      for (const std::int64_t page : {16, 32, 64, 48, 4096}) {
        const Record r = record(format, page, d);
        for (const std::int64_t at : {r.k_codes, r.k_scales, r.v_codes, r.v_scales, r.bytes})
          EXPECT_EQ(at % alignment, 0)
              << static_cast<int>(format) << " d " << d << " page " << page;
        EXPECT_EQ(r.bytes - r.v_scales, page * token_scale_bytes(format, d));
      }
}

TEST(KvPage, reads_each_position_from_one_place) {
  for (const std::int64_t first : {0, 4, 16})
    for (const std::int64_t recent : {0, 5, 64})
      for (std::int64_t length = 1; length < 100; ++length) {
        const Range paged = paged_positions(length, first, recent);
        ASSERT_LE(paged.begin, paged.end);
        for (std::int64_t p = 0; p < length; ++p) {
          const Slot s = slot(p, length, first, recent);
          EXPECT_EQ(s.source == Source::page, p >= paged.begin && p < paged.end)
              << "position " << p << " of " << length;
          if (s.source == Source::first) {
            EXPECT_EQ(s.index, p);
          }
          if (s.source == Source::recent) {
            EXPECT_EQ(s.index, p % recent);
          }
        }
      }
}

TEST(KvPage, counts_pages_of_a_length) {
  EXPECT_EQ(entries(0, 16), 0);
  EXPECT_EQ(entries(1, 16), 1);
  EXPECT_EQ(entries(16, 16), 1);
  EXPECT_EQ(entries(17, 16), 2);
  EXPECT_EQ(place(35, 16).entry, 2);
  EXPECT_EQ(place(35, 16).token, 3);
}

}  // namespace
}  // namespace microscale
