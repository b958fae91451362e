#include "emulator/finding.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator {

TEST(Finding, names_place_and_source_in_one_sentence) {
  Finding finding;
  finding.kind = FindingKind::race;
  finding.kernel = "k";
  finding.thread[0] = 5;
  finding.ptx_line = 120;
  finding.source = "file.cu:14";
  finding.message = "warp 0 writes";
  EXPECT_EQ(
      to_sentence(finding),
      "race: kernel k, block (0,0,0), thread (5,0,0), PTX line 120 (file.cu:14): warp 0 writes");
  finding.count = 3;
  finding.source.clear();
  EXPECT_EQ(to_sentence(finding),
            "race: kernel k, block (0,0,0), thread (5,0,0), PTX line 120: warp 0 writes (3 times)");
}

TEST(Finding, has_a_name_for_every_kind) {
  for (int kind = 0; kind <= static_cast<int>(FindingKind::misuse); ++kind)
    EXPECT_STRNE(name_of(static_cast<FindingKind>(kind)), "unknown");
}

}  // namespace microscale::emulator
