#include "emulator/causes.hpp"

#include <gtest/gtest.h>

#include "emulator/memory/access.hpp"

namespace microscale::emulator {
namespace {

Finding finding(FindingKind kind, const std::string& source, const std::string& object = "",
                std::uint64_t address = 0) {
  Finding made;
  made.kind = kind;
  made.source = source;
  made.object = object;
  made.address = address;
  return made;
}

TEST(Causes, put_what_a_missing_barrier_does_to_an_array_together_worst_first) {
  const std::vector<Finding> findings = {
      finding(FindingKind::uninitialised_memory, "k.cu:9", "tile + 4", shared_window + 4),
      finding(FindingKind::race, "k.cu:12", "tile", shared_window),
      finding(FindingKind::out_of_bounds, "k.cu:20", "x + 400", std::uint64_t{1} << 47),
      finding(FindingKind::race, "k.cu:14", "tile + 8", shared_window + 8),
      finding(FindingKind::race, "k.cu:14", "other", shared_window + 800)};
  const std::vector<std::vector<std::size_t>> wanted = {{2}, {1, 3, 0}, {4}};
  EXPECT_EQ(by_cause(findings), wanted);
}

TEST(Causes, of_no_array_are_lines_of_the_kernel) {
  Finding shuffle = finding(FindingKind::divergent_aligned, "shuffles.hpp:40");
  shuffle.inlined_at = "k.cu:5";
  Finding other = shuffle;
  other.inlined_at = "k.cu:6";
  EXPECT_EQ(by_cause({shuffle, other, shuffle}).size(), 2u);
  EXPECT_TRUE(by_cause({}).empty());
}

}  // namespace
}  // namespace microscale::emulator
