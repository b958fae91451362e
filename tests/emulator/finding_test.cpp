#include "emulator/finding.hpp"

#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(Finding, a_sentence_names_kernel_block_thread_line_and_source) {
  Finding finding;
  finding.kind = FindingKind::race;
  finding.kernel = "k";
  finding.block[1] = 2;
  finding.thread[0] = 5;
  finding.ptx_line = 120;
  finding.source = "file.cu:14";
  finding.message = "reads what thread 3 writes";
  finding.count = 3;
  EXPECT_EQ(to_sentence(finding),
            "race: kernel k, block (0,2,0), thread (5,0,0), PTX line 120 (file.cu:14): reads what thread 3 writes (3 times)");
  EXPECT_STREQ(name_of(FindingKind::divergent_aligned), "divergent-aligned");
}

}  // namespace
}  // namespace microscale::emulator
