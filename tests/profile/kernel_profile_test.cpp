#include "profile/kernel_profile.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "profile/sample_profile.hpp"

namespace microscale {
namespace {

using testing::sample_profile;

TEST(KernelProfile, sums_lines_and_leaves_out_what_is_not_in_the_text) {
  const std::vector<LineSum> lines = by_line(sample_profile());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, "first");
  EXPECT_EQ(lines[0].specials, std::vector<std::string>{"%tid.x"});
  EXPECT_EQ(lines[1].instructions, 2u);
  EXPECT_EQ(lines[1].warps, 8u);
  EXPECT_EQ(sector_text(lines[1].store_sectors, lines[1].store_ideal, lines[1].stores),
            "32.0 / 4.0");
  EXPECT_EQ(sector_text(lines[1].load_sectors, lines[1].load_ideal, lines[1].loads), "");
  EXPECT_EQ(mean_text(lines[1].conflicts, lines[1].shared), "1.0");
  EXPECT_EQ(total(sample_profile()).warps, 12u);
}

TEST(KernelProfile, names_places_by_source_and_by_ptx_line_without_one) {
  KernelProfile profile = sample_profile();
  EXPECT_EQ(place_of(profile, 1, 2), "k.cu:2");
  EXPECT_EQ(place_of(profile, 1, 0), "k.cu");
  for (ProfiledInstruction& each : profile.instructions) each.file = 0;
  const std::vector<LineSum> lines = by_line(profile);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(place_of(profile, lines[2].file, lines[2].line), "PTX 12");
  EXPECT_EQ(lines[2].text, "ld.shared.u32 %r2, [%r3];");
}

TEST(KernelProfile, mixes_classes_by_executions) {
  KernelProfile profile = sample_profile();
  profile.instructions[2].count.warps = 40;
  const std::vector<ClassSum> classes = by_class(profile);
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(name_of(classes[0].which), "load shared");
  EXPECT_EQ(classes[0].warps, 40u);
  EXPECT_EQ(specials_of(profile), std::vector<std::string>{"%tid.x"});
}

TEST(KernelProfile, is_one_json_document) {
  const auto json = nlohmann::json::parse(to_json(sample_profile(), -1));
  EXPECT_EQ(json["total"]["global_stores"]["sectors"], 128);
  EXPECT_EQ(json["total"]["shared"]["bank_conflicts"], 4);
  EXPECT_EQ(json["lines"].size(), 2u);
  EXPECT_EQ(json["instructions"].size(), 3u);
  EXPECT_FALSE(json["total"].contains("global_loads"));
}

}  // namespace
}  // namespace microscale
