#include "checkpoint/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <string>
#include <thread>
#include <vector>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::fails_with;
using testing::read_file;
using testing::succeeds;
using testing::TemporaryFolder;
using testing::write_file;

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string read_text(const InputFile& file, std::uint64_t offset, std::size_t length) {
  std::string text(length, '?');
  const Status status =
      file.read_at(offset, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  EXPECT_TRUE(succeeds(status));
  return text;
}

TEST(InputFile, reads_any_range) {
  TemporaryFolder folder;
  write_file(folder / "f", "0123456789");
  const InputFile file = take(InputFile::open(folder / "f"));
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(read_text(file, 3, 4), "3456");
  EXPECT_EQ(read_text(file, 0, 10), "0123456789");
  EXPECT_EQ(read_text(file, 10, 0), "");
  file.will_need(0, 10);
  file.dont_need(0, 10);
  EXPECT_EQ(read_text(file, 9, 1), "9");
}

TEST(InputFile, reading_past_the_end_is_refused) {
  TemporaryFolder folder;
  write_file(folder / "f", "0123456789");
  const InputFile file = take(InputFile::open(folder / "f"));
  std::vector<std::uint8_t> buffer(4);
  EXPECT_TRUE(fails_with(file.read_at(7, buffer), "the file has only 10 bytes"));
  EXPECT_TRUE(fails_with(file.read_at(~std::uint64_t{0}, buffer), "the file has only 10 bytes"));
}

TEST(InputFile, a_file_cut_while_open_is_reported) {
  TemporaryFolder folder;
  write_file(folder / "f", "0123456789");
  const InputFile file = take(InputFile::open(folder / "f"));
  std::filesystem::resize_file(folder / "f", 6);
  std::vector<std::uint8_t> buffer(8);
  const Status status = file.read_at(1, buffer);
  EXPECT_TRUE(fails_with(status, "became shorter while it was read: 10 bytes when opened"));
  EXPECT_EQ(status.failure().code, ErrorCode::bad_input);
}

TEST(InputFile, only_regular_files_open) {
  TemporaryFolder folder;
  EXPECT_TRUE(fails_with(InputFile::open(folder / "none"), "No such file or directory"));
  EXPECT_TRUE(fails_with(InputFile::open(folder.path()), "it is a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(fails_with(InputFile::open(folder / "pipe"), "it is not a file"));
}

TEST(InputFile, identity_changes_with_the_file) {
  TemporaryFolder folder;
  write_file(folder / "f", "one");
  const FileIdentity first = take(InputFile::open(folder / "f")).identity();
  EXPECT_EQ(take(InputFile::open(folder / "f")).identity(), first);
  const timespec times[2] = {{1000, 0}, {1000, 5}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder / "f").c_str(), times, 0), 0);
  const FileIdentity touched = take(InputFile::open(folder / "f")).identity();
  EXPECT_EQ(touched, (FileIdentity{3, 1'000'000'000'005}));
  EXPECT_FALSE(touched == first);
}

TEST(InputFile, moving_hands_over_the_descriptor) {
  TemporaryFolder folder;
  write_file(folder / "a", "aaa");
  write_file(folder / "b", "bbb");
  InputFile file = take(InputFile::open(folder / "a"));
  InputFile other = take(InputFile::open(folder / "b"));
  file = std::move(other);
  EXPECT_EQ(read_text(file, 0, 3), "bbb");
  EXPECT_EQ(file.path(), folder / "b");
}

TEST(OutputFile, has_its_final_name_only_after_commit) {
  TemporaryFolder folder;
  OutputFile file = take(OutputFile::create(folder / "out", 6));
  ASSERT_TRUE(succeeds(file.write_at(3, bytes_of("def"))));
  ASSERT_TRUE(succeeds(file.write_at(0, bytes_of("abc"))));
  file.flush_range(0, 6);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  EXPECT_TRUE(std::filesystem::exists(folder / "out.partial"));
  ASSERT_TRUE(succeeds(file.commit()));
  EXPECT_EQ(read_file(folder / "out"), "abcdef");
  EXPECT_FALSE(std::filesystem::exists(folder / "out.partial"));
}

TEST(OutputFile, leaves_nothing_without_commit) {
  TemporaryFolder folder;
  write_file(folder / "out", "old");
  {
    OutputFile file = take(OutputFile::create(folder / "out"));
    ASSERT_TRUE(succeeds(file.write_at(0, bytes_of("new"))));
    OutputFile moved = std::move(file);
  }
  EXPECT_EQ(read_file(folder / "out"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "out.partial"));
}

TEST(OutputFile, starts_afresh_over_an_old_partial) {
  TemporaryFolder folder;
  write_file(folder / "out.partial", "left by a killed run");
  OutputFile file = take(OutputFile::create(folder / "out"));
  ASSERT_TRUE(succeeds(file.write_at(0, bytes_of("new"))));
  ASSERT_TRUE(succeeds(file.commit()));
  EXPECT_EQ(read_file(folder / "out"), "new");
}

TEST(OutputFile, does_not_write_through_a_link) {
  TemporaryFolder folder;
  write_file(folder / "precious", "precious");
  std::filesystem::create_symlink(folder / "precious", folder / "out.partial");
  EXPECT_TRUE(fails_with(OutputFile::create(folder / "out"), "cannot create"));
  EXPECT_EQ(read_file(folder / "precious"), "precious");
}

TEST(OutputFile, takes_writes_from_many_threads) {
  TemporaryFolder folder;
  constexpr std::size_t count = 64, length = 1000;
  OutputFile file = take(OutputFile::create(folder / "out", count * length));
  std::vector<std::thread> threads;
  for (std::size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (std::size_t i = first; i < count; i += 4) {
        const std::string piece(length, static_cast<char>('0' + i));
        EXPECT_TRUE(succeeds(file.write_at(i * length, bytes_of(piece))));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(succeeds(file.commit()));
  const std::string contents = read_file(folder / "out");
  ASSERT_EQ(contents.size(), count * length);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(contents.substr(i * length, length), std::string(length, static_cast<char>('0' + i)));
  }
}

TEST(OutputFile, a_size_that_does_not_fit_fails_at_once_and_leaves_nothing) {
  TemporaryFolder folder;
  for (const std::uint64_t size : {std::uint64_t{1} << 61, ~std::uint64_t{0}}) {
    const auto file = OutputFile::create(folder / "out", size);
    EXPECT_TRUE(fails_with(file, "its " + std::to_string(size) + " bytes do not fit on the disk"));
    EXPECT_EQ(file.failure().code, ErrorCode::io);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

TEST(OutputFile, running_out_of_room_while_writing_is_one_sentence) {
  TemporaryFolder folder;
  // The limit on the size of a file stands in for a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    const OutputFile file = take(OutputFile::create(folder / "out"));
    const Status status = file.write_at(0, bytes_of(std::string(2000, 'x')));
    EXPECT_TRUE(fails_with(status, "its 2000 bytes do not fit on the disk"));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(OutputFile, needs_its_folder) {
  TemporaryFolder folder;
  EXPECT_TRUE(fails_with(OutputFile::create(folder.path() / "no" / "out"), "No such file"));
}

TEST(WriteFileAtomically, replaces_old_contents) {
  TemporaryFolder folder;
  ASSERT_TRUE(succeeds(write_file_atomically(folder / "f", "a long first version")));
  ASSERT_TRUE(succeeds(write_file_atomically(folder / "f", "short")));
  EXPECT_EQ(read_file(folder / "f"), "short");
  ASSERT_TRUE(succeeds(write_file_atomically(folder / "f", "")));
  EXPECT_EQ(read_file(folder / "f"), "");
}

TEST(ReadSmallFile, refuses_more_than_asked_for) {
  TemporaryFolder folder;
  write_file(folder / "f", "12345");
  EXPECT_EQ(take(read_small_file(folder / "f", 5)), "12345");
  EXPECT_TRUE(fails_with(read_small_file(folder / "f", 4), "has 5 bytes, more than the 4"));
}

TEST(FreeSpace, looks_at_the_nearest_folder_that_exists) {
  TemporaryFolder folder;
  const auto here = free_space(folder.path());
  ASSERT_TRUE(succeeds(here));
  EXPECT_GT(here.value(), 0u);
  EXPECT_TRUE(succeeds(free_space(folder.path() / "not" / "yet" / "there")));
  EXPECT_TRUE(succeeds(free_space("not/yet/there")));
}

TEST(InputFile, a_planned_one_has_a_size_and_no_bytes) {
  const InputFile file = InputFile::planned("later.safetensors", 10);
  EXPECT_EQ(file.size(), 10u);
  std::vector<std::uint8_t> bytes(4);
  EXPECT_TRUE(testing::fails_with(file.read_at(0, bytes), "cannot read 'later.safetensors'"));
  EXPECT_TRUE(testing::fails_with(file.read_at(8, bytes), "has only 10 bytes"));
}

TEST(PartialPath, fits_where_the_name_itself_does) {
  EXPECT_EQ(partial_path("d/a.bin"), "d/a.bin.partial");
  EXPECT_EQ(partial_path(std::string(247, 'n')), std::string(247, 'n') + ".partial");
  TemporaryFolder folder;
  for (const std::size_t length : {248u, 255u}) {
    const std::string name(length, 'n');
    const fs::path partial = partial_path(folder / name);
    EXPECT_EQ(partial.parent_path(), folder.path());
    EXPECT_EQ(partial, partial_path(folder / name)) << "not the same again";
    EXPECT_EQ(partial.extension(), ".partial");
    EXPECT_NE(partial, partial_path(folder / (name.substr(1) + "m")));
    ASSERT_TRUE(succeeds(write_file_atomically(folder / name, "x"))) << length;
    EXPECT_EQ(read_file(folder / name), "x");
  }
}

}  // namespace
}  // namespace microscale
