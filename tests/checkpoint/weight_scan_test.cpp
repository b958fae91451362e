#include "checkpoint/weight_scan.hpp"

#include <gtest/gtest.h>

#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::succeeds;

class WeightScanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::sample_model().write(folder / "in");
    plan = take(make_model_plan(testing::options_for(folder, Format::nvfp4)));
  }
  testing::TemporaryFolder folder;
  ModelPlan plan;
};

TEST_F(WeightScanTest, keeps_the_largest_magnitude_of_each_group) {
  WeightScan scan(plan);
  scan.add_amax(0, 1.0f);
  scan.add_amax(0, 3.0f);
  scan.add_amax(0, 2.0f);
  EXPECT_EQ(scan.amax(0), 3.0f);
  EXPECT_EQ(scan.amax(1), 0.0f);
  EXPECT_TRUE(succeeds(scan.result()));
}

TEST_F(WeightScanTest, reports_the_first_bad_element_whatever_comes_first) {
  const WeightScan::Place places[] = {{1, 0, 3, 2, WeightScan::Bad::infinite},
                                      {0, 1, 5, 7, WeightScan::Bad::nan},
                                      {0, 1, 5, 8, WeightScan::Bad::huge},
                                      {0, 1, 6, 0, WeightScan::Bad::infinite}};
  for (int first = 0; first < 4; ++first) {
    WeightScan scan(plan);
    for (int i = 0; i < 4; ++i) scan.add_bad(places[(first + i) % 4]);
    const std::string tensor = plan.tensors[plan.shards[0].matrices[1].tensor].entry->name;
    EXPECT_TRUE(fails_with(scan.result(), "tensor '" + tensor + "'"));
    EXPECT_TRUE(fails_with(scan.result(), "is NaN at [5, 7]"));
    EXPECT_TRUE(scan.is_past_bad(0, 1, 5, 8));
    EXPECT_FALSE(scan.is_past_bad(0, 1, 5, 7));
    EXPECT_FALSE(scan.is_past_bad(0, 0, 900, 0)) << "an earlier one may still turn up";
  }
}

}  // namespace
}  // namespace microscale
