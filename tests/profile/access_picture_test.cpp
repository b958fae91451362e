#include "profile/access_picture.hpp"

#include <gtest/gtest.h>

#include "report/markup_check.hpp"
#include "profile/sample_profile.hpp"

namespace microscale {
namespace {

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(AccessPicture, draws_each_sector_that_is_transferred) {
  const KernelProfile profile = testing::sample_profile();
  const emulator::AccessSample& sample = profile.instructions[1].count.sample;
  const std::string picture = access_picture(sample, profile.buffers);
  EXPECT_EQ(testing::markup_error(picture), "");
  EXPECT_EQ(count(picture, "class=\"fetched\""), 32);
  EXPECT_EQ(count(picture, "class=\"used\""), 32);
  EXPECT_NE(picture.find("lane 3: 4 bytes at out + 0xc00"), picture.npos);
  EXPECT_EQ(access_words(sample), "32 sectors of 32 bytes, where 4 would do");
}

TEST(AccessPicture, draws_four_full_sectors_for_neighbours) {
  emulator::AccessSample sample{
      .block = 0, .warp = 0, .lanes = ~0u, .bytes = 4, .shared = false, .address = {}};
  for (std::uint64_t i = 0; i < 32; ++i) sample.address[i] = 0x2000 + 4 * i;
  const std::string picture = access_picture(sample, {});
  EXPECT_EQ(count(picture, "class=\"fetched\""), 4);
  EXPECT_EQ(access_words(sample), "4 sectors of 32 bytes, as few as the bytes fit into");
}

TEST(AccessPicture, draws_a_bank_as_deep_as_it_has_words) {
  const KernelProfile profile = testing::sample_profile();
  const emulator::AccessSample& sample = profile.instructions[2].count.sample;
  const std::string picture = access_picture(sample, {});
  EXPECT_EQ(testing::markup_error(picture), "");
  EXPECT_EQ(count(picture, "class=\"used\""), 16);
  EXPECT_EQ(count(picture, "class=\"clash\""), 16);
  EXPECT_EQ(count(picture, "class=\"untouched\""), 16);
  EXPECT_EQ(access_words(sample), "1 extra turn through the banks");
  emulator::AccessSample same = sample;
  for (std::uint64_t& address : same.address) address = 12;
  EXPECT_NE(access_picture(same, {}).find("lane 0 and 31 more"), std::string::npos);
  EXPECT_EQ(access_words(same), "no bank conflict");
}

TEST(AccessPicture, is_nothing_for_nobody) { EXPECT_EQ(access_picture({}, {}), ""); }

}  // namespace
}  // namespace microscale
