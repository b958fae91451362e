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

TEST(Finding, names_the_kernel_as_people_do_and_what_lies_at_the_address) {
  Finding finding;
  finding.kind = FindingKind::out_of_bounds;
  finding.kernel = "_Z5scalePKfPff";
  finding.object = "x + 400";
  finding.message = "lane 4 reads";
  const std::string sentence = to_sentence(finding);
  EXPECT_NE(sentence.find("kernel scale(float const*, float*, float), block"), std::string::npos);
  EXPECT_TRUE(sentence.ends_with("lane 4 reads [x + 400]")) << sentence;
}

TEST(Finding, has_a_name_words_and_a_cure_for_every_kind) {
  for (int kind = 0; kind <= static_cast<int>(FindingKind::assertion); ++kind) {
    Finding finding;
    finding.kind = static_cast<FindingKind>(kind);
    EXPECT_STRNE(name_of(finding.kind), "unknown");
    EXPECT_FALSE(cuda_words(finding).empty()) << name_of(finding.kind);
    EXPECT_FALSE(cure_of(finding).empty()) << name_of(finding.kind);
  }
}

TEST(Finding, has_a_cure_for_the_place_of_a_race) {
  Finding finding;
  finding.kind = FindingKind::race;
  finding.address = std::uint64_t{1} << 47;
  finding.message = "no barrier stands between";
  EXPECT_NE(cure_of(finding).find("__syncthreads()"), std::string::npos);
  finding.message = "no release and acquire (a fence and an atomic) stand between";
  EXPECT_NE(cure_of(finding).find("__threadfence()"), std::string::npos);
  EXPECT_NE(cuda_words(finding).find("global memory"), std::string::npos);
}

TEST(Finding, has_words_and_cures_of_tensor_memory) {
  Finding finding;
  finding.address = 0x0600'0000'0000'0000;
  finding.kind = FindingKind::missing_fence;
  EXPECT_NE(cure_of(finding).find("after_thread_sync"), std::string::npos);
  finding.kind = FindingKind::missing_wait;
  EXPECT_NE(cure_of(finding).find("tcgen05.commit"), std::string::npos);
  finding.kind = FindingKind::uninitialised_memory;
  EXPECT_NE(cuda_words(finding).find("tensor memory"), std::string::npos);
  finding.kind = FindingKind::misuse;
  EXPECT_FALSE(cure_of(finding).empty());
}

}  // namespace microscale::emulator
