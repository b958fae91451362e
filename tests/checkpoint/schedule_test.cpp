#include "checkpoint/schedule.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "sample_model.hpp"

namespace microscale {
namespace {

using Key = std::tuple<int, std::uint32_t, std::uint32_t, std::int64_t>;

Key key(const Unit& unit) {
  return {static_cast<int>(unit.kind), unit.shard, unit.item, unit.piece};
}

ModelPlan plan_of(const testing::TemporaryFolder& folder, Format format) {
  testing::sample_model().write(folder / "in");
  return take(make_model_plan(testing::options_for(folder, format)));
}

TEST(Schedule, holds_every_unit_once_and_measures_groups_in_time) {
  const testing::TemporaryFolder folder;
  const ModelPlan plan = plan_of(folder, Format::nvfp4);
  for (const std::int64_t batch_bytes :
       {std::int64_t{1}, std::int64_t{5000}, std::int64_t{1} << 30}) {
    std::set<Key> seen;
    std::set<std::size_t> measured;  // groups
    std::size_t converted = 0;
    const auto batches = make_schedule(plan, {false, false}, batch_bytes);
    for (const Batch& batch : batches) {
      for (const Unit& unit : batch.measure) {
        EXPECT_TRUE(seen.insert(key(unit)).second);
        measured.insert(plan.shards[unit.shard].matrices[unit.item].group);
      }
      for (const Unit& unit : batch.convert) {
        EXPECT_TRUE(seen.insert(key(unit)).second);
        ++converted;
        if (unit.kind != Unit::Kind::quantize) continue;
        EXPECT_TRUE(measured.contains(plan.shards[unit.shard].matrices[unit.item].group));
      }
    }
    EXPECT_EQ(measured.size(), plan.groups.size());
    EXPECT_EQ(plan.groups.size(), 3u) << "q/k/v, gate/up, o";
    EXPECT_EQ(converted, 2u + 6u + 8u) << "headers, matrices, copies with elements";
    EXPECT_EQ(batches.size() > 1, batch_bytes < 10000);
  }
}

TEST(Schedule, skips_finished_shards_but_measures_their_share_of_a_group) {
  const testing::TemporaryFolder folder;
  const ModelPlan plan = plan_of(folder, Format::nvfp4);
  const auto batches = make_schedule(plan, {true, false}, 1 << 30);
  ASSERT_EQ(batches.size(), 1u);
  for (const Unit& unit : batches[0].convert) EXPECT_EQ(unit.shard, 1u);
  std::set<std::uint32_t> measured;
  for (const Unit& unit : batches[0].measure) measured.insert(unit.shard);
  EXPECT_EQ(measured, (std::set<std::uint32_t>{0, 1})) << "k_proj needs q_proj";
  EXPECT_TRUE(make_schedule(plan, {true, true}, 1)[0].convert.empty());
}

TEST(Schedule, measures_nothing_for_formats_without_a_global_scale) {
  const testing::TemporaryFolder folder;
  const ModelPlan plan = plan_of(folder, Format::mxfp4);
  for (const Batch& batch : make_schedule(plan, {false, false}, 1))
    EXPECT_TRUE(batch.measure.empty());
}

}  // namespace
}  // namespace microscale
