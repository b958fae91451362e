#include "checkpoint/named_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::fails_with;
using testing::read_file;
using testing::succeeds;
using testing::TemporaryFolder;
using testing::write_file;

std::size_t files_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder.path()), {}));
}

TEST(NamedFile, takes_the_place_of_a_file_of_that_name_only) {
  TemporaryFolder folder;
  write_file(folder / "page.html", "a long first version");
  write_file(folder / "page.html.partial", "somebody's own");
  ASSERT_TRUE(succeeds(write_named_file(folder / "page.html", "short")));
  EXPECT_EQ(read_file(folder / "page.html"), "short");
  EXPECT_EQ(read_file(folder / "page.html.partial"), "somebody's own");
  EXPECT_EQ(files_in(folder), 2u);
}

TEST(NamedFile, a_link_stays_a_link) {
  TemporaryFolder folder;
  fs::create_directory(folder / "elsewhere");
  write_file(folder / "elsewhere/page", "old");
  fs::create_symlink("elsewhere/page", folder / "link");
  EXPECT_EQ(take(place_of_named_file(folder / "link")), fs::canonical(folder / "elsewhere/page"));
  ASSERT_TRUE(succeeds(write_named_file(folder / "link", "new")));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "elsewhere/page"), "new");
  fs::create_symlink("absent", folder / "dangling");
  EXPECT_TRUE(fails_with(write_named_file(folder / "dangling", "new"), "it is a link to nothing"));
}

TEST(NamedFile, is_refused_where_something_else_has_the_name) {
  TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(fails_with(write_named_file(folder / "pipe", "x"), "it is a device, a pipe"));
  EXPECT_TRUE(fails_with(write_named_file(folder.path(), "x"), "it is a folder; name a file"));
  EXPECT_TRUE(fails_with(write_named_file(folder / "new/", "x"), "it is no name of a file"));
  EXPECT_TRUE(fails_with(write_named_file(folder / "no/x", "x"), "its folder does not exist"));
  EXPECT_EQ(files_in(folder), 1u);
  write_file(folder / "locked/page", "old");
  fs::permissions(folder / "locked", fs::perms::owner_read | fs::perms::owner_exec);
  if (::access((folder / "locked").c_str(), W_OK) != 0) {  // root may write anywhere
    EXPECT_TRUE(fails_with(write_named_file(folder / "locked/page", "x"), "Permission denied"));
  }
  fs::permissions(folder / "locked", fs::perms::owner_all);
  EXPECT_EQ(read_file(folder / "locked/page"), "old");
}

}  // namespace
}  // namespace microscale
