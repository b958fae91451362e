#include "emulator/memory/shadow.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator {

TEST(ShadowPage, tells_the_first_byte_nobody_wrote) {
  ShadowPage page;
  page.mark_written(60, 10);
  EXPECT_TRUE(page.all_written(60, 10));
  EXPECT_FALSE(page.all_written(59, 2));
  EXPECT_FALSE(page.all_written(69, 2));
  EXPECT_EQ(page.first_unwritten(60, 20), 70u);
  EXPECT_EQ(page.first_unwritten(62, 4), 66u);
}

TEST(ShadowPage, keeps_what_cells_said_when_they_become_finer) {
  ShadowPage page;
  page.begin(3);
  ASSERT_EQ(page.writer.size(), 1024u);
  page.writer[5] = 77;
  page.refine(1);
  ASSERT_EQ(page.writer.size(), 2048u);
  EXPECT_EQ(page.writer[10], 77u);
  EXPECT_EQ(page.writer[11], 77u);
  EXPECT_EQ(page.writer[12], 0u);
  page.refine(0);
  EXPECT_EQ(page.writer[23], 77u);
  EXPECT_EQ(page.writer[24], 0u);
  page.begin(4);
  EXPECT_EQ(page.writer[23], 0u);
}

TEST(ShadowPage, has_cells_as_wide_as_the_first_access_of_a_launch) {
  ShadowPage page;
  page.begin(1, 4);
  EXPECT_EQ(page.writer.size(), 256u);
  page.reader[255] = 9;
  page.begin(2, 0);
  EXPECT_EQ(page.reader.size(), 4096u);
  EXPECT_EQ(page.reader[255], 0u);
  page.begin(3, 12);  // a whole page by one lane
  EXPECT_EQ(page.shift, ShadowPage::widest);
}

TEST(ShadowPage, is_whole_when_every_byte_was_written) {
  ShadowPage page;
  page.mark_written(0, 2048);
  page.mark_written(2048, 2047);
  page.begin(1);
  EXPECT_FALSE(page.whole);
  page.mark_written(4095, 1);
  page.begin(2);
  EXPECT_TRUE(page.whole);
  EXPECT_TRUE(page.all_written(3, 4000));
  EXPECT_TRUE(page.is_written(4064, 32));
}

TEST(Shadow, marks_across_pages_and_forgets) {
  Shadow shadow(3 * 4096);
  EXPECT_EQ(shadow.existing(0), nullptr);
  shadow.mark_written(4000, 5000);
  EXPECT_TRUE(shadow.page(4000).all_written(4000, 96));
  EXPECT_TRUE(shadow.page(4096).all_written(0, 4096));
  EXPECT_TRUE(shadow.page(8192).all_written(0, 808));
  EXPECT_FALSE(shadow.page(8192).all_written(808, 1));
  shadow.forget();
  EXPECT_FALSE(shadow.page(4096).all_written(0, 1));
}

}  // namespace microscale::emulator
