#include "profile/kernel_page_timeline.hpp"

#include <gtest/gtest.h>

#include "report/markup_check.hpp"
#include "profile/sample_profile.hpp"

namespace microscale {
namespace {

TEST(KernelPageTimeline, draws_turns_and_says_who_waits_for_what) {
  KernelProfile profile = testing::sample_profile();
  EXPECT_EQ(warp_timeline(profile), "");
  profile.report.timeline = {{0, 0, 40, "warp 0 waits for <barrier 0>"},
                             {1, 0, 100, ""},
                             {0, 100, 20, ""},
                             {1, 100, 30, "warp 1 waits for ever"}};
  const std::string part = warp_timeline(profile);
  EXPECT_EQ(testing::markup_error("<body>" + part + "</body>"), "");
  EXPECT_NE(part.find("from 40 to 100: warp 0 waits for &lt;barrier 0&gt;"), part.npos) << part;
  EXPECT_NE(part.find("60 instructions long: warp 0 waits for"), part.npos);
  EXPECT_EQ(part.find("for ever"), part.npos) << "nothing comes after it";
}

}  // namespace
}  // namespace microscale
