#include "checkpoint/file_facts.hpp"

#include <gtest/gtest.h>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using testing::write_file;

TEST(TakePermissions, gives_a_copy_those_that_it_should_have) {
  TemporaryFolder folder;
  const auto copied = [&](fs::perms original) {
    write_file(folder / "in", "x");
    write_file(folder / "out", "x");
    fs::permissions(folder / "in", original);
    fs::permissions(folder / "out", static_cast<fs::perms>(0644));
    take_permissions(folder / "in", folder / "out");
    const fs::perms got = fs::status(folder / "out").permissions();
    fs::remove(folder / "in");
    return static_cast<unsigned>(got);
  };
  EXPECT_EQ(copied(static_cast<fs::perms>(0755)), 0755u);
  EXPECT_EQ(copied(static_cast<fs::perms>(0750)), 0750u);
  EXPECT_EQ(copied(static_cast<fs::perms>(0600)), 0600u);
  EXPECT_EQ(copied(static_cast<fs::perms>(0444)), 0644u) << "its owner may write to it";
  EXPECT_EQ(copied(static_cast<fs::perms>(0666)), 0644u);
}

TEST(AllocatedBytes, are_those_on_the_disk) {
  TemporaryFolder folder;
  write_file(folder / "f", std::string(10'000, 'x'));
  EXPECT_GE(allocated_bytes(folder / "f"), 10'000u);
  EXPECT_EQ(allocated_bytes(folder / "g"), 0u);
  EXPECT_EQ(allocated_bytes(folder.path()), 0u);
}

}  // namespace
}  // namespace microscale
