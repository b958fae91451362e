#include "checkpoint/journal.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::read_file;
using testing::succeeds;
using testing::TemporaryFolder;
using testing::write_file;

const Fingerprint fingerprint{{"option format", "nvfp4"}, {"input a", "of 3 bytes"}};

class JournalTest : public ::testing::Test {
 protected:
  Result<Journal> resume(const Fingerprint& of = fingerprint) {
    seen.clear();
    return Journal::resume(folder.path(), of, [&](FinishedFile file) {
      seen.push_back(file);
      return success();
    });
  }
  std::filesystem::path path() const { return folder.path() / journal_name; }

  TemporaryFolder folder;
  std::vector<FinishedFile> seen;
};

TEST_F(JournalTest, gives_back_what_was_recorded) {
  {
    Journal journal = take(Journal::start(folder.path(), fingerprint));
    EXPECT_TRUE(succeeds(journal.record({"one \"quoted\"", 10, "ab", R"([{"x":1}])"})));
    EXPECT_TRUE(succeeds(journal.record({"two", 20, "cd", ""})));
  }
  EXPECT_TRUE(succeeds(resume()));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].name, "one \"quoted\"");
  EXPECT_EQ(seen[0].size, 10u);
  EXPECT_EQ(seen[0].digest, "ab");
  EXPECT_EQ(seen[0].report, R"([{"x":1}])");
  EXPECT_EQ(seen[1].report, "");
}

TEST_F(JournalTest, line_cut_by_a_crash_does_not_count_at_any_length) {
  {
    Journal journal = take(Journal::start(folder.path(), fingerprint));
    EXPECT_TRUE(succeeds(journal.record({"one", 10, "ab", ""})));
    EXPECT_TRUE(succeeds(journal.record({"two", 20, "cd", ""})));
  }
  const std::string whole = read_file(path());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(path(), whole.substr(0, length));
    {
      auto journal = resume();
      ASSERT_TRUE(succeeds(journal)) << length;
      const std::string kept = whole.substr(0, length);
      const auto lines = std::count(kept.begin(), kept.end(), '\n');
      ASSERT_EQ(static_cast<std::ptrdiff_t>(seen.size()), std::max<std::ptrdiff_t>(0, lines - 1))
          << length;
      ASSERT_TRUE(succeeds(journal.value().record({"three", 30, "ef", ""})));
    }
    ASSERT_TRUE(succeeds(resume())) << length;
    ASSERT_EQ(seen.back().name, "three");
  }
}

TEST_F(JournalTest, refuses_another_conversion_saying_what_differs) {
  { const Journal journal = take(Journal::start(folder.path(), fingerprint)); }
  Fingerprint other = fingerprint;
  other[0].second = "mxfp4";
  EXPECT_TRUE(fails_with(resume(other), "option format was nvfp4, now it is mxfp4"));
  EXPECT_EQ(resume(other).failure().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(fails_with(resume({fingerprint[0]}), "input a was of 3 bytes, now it is absent"));
  other = fingerprint;
  other.emplace_back("input b", "of 4 bytes");
  EXPECT_TRUE(fails_with(resume(other), "input b was absent"));
  EXPECT_TRUE(succeeds(resume()));
}

TEST_F(JournalTest, refuses_damage_before_the_last_line) {
  {
    Journal journal = take(Journal::start(folder.path(), fingerprint));
    EXPECT_TRUE(succeeds(journal.record({"one", 10, "ab", ""})));
  }
  const std::string whole = read_file(path());
  write_file(path(), "nonsense\n" + whole);
  EXPECT_TRUE(fails_with(resume(), "is damaged"));
  write_file(path(), whole + "{\"size\":1}\n");
  EXPECT_TRUE(fails_with(resume(), "is damaged"));
  write_file(path(), "{\"journal\":99,\"of\":{}}\n");
  EXPECT_TRUE(fails_with(resume(), "is damaged"));
  write_file(path(), "{\"journal\":\"x\",\"of\":{}}\n");
  EXPECT_TRUE(fails_with(resume(), "is damaged"));
}

TEST_F(JournalTest, keeps_a_second_run_out) {
  const Journal journal = take(Journal::start(folder.path(), fingerprint));
  EXPECT_TRUE(fails_with(resume(), "another run is writing to"));
  EXPECT_FALSE(Journal::start(folder.path(), fingerprint));
}

TEST_F(JournalTest, remove_takes_it_away) {
  Journal journal = take(Journal::start(folder.path(), fingerprint));
  EXPECT_TRUE(succeeds(journal.remove()));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(JournalTest, sample_digest_sees_size_and_content) {
  write_file(folder / "small", std::string(1000, 'a'));
  write_file(folder / "longer", std::string(1001, 'a'));
  write_file(folder / "other", std::string(999, 'a') + "b");
  write_file(folder / "empty", "");
  const std::string small = take(sample_digest(folder / "small"));
  EXPECT_NE(small, take(sample_digest(folder / "longer")));
  EXPECT_NE(small, take(sample_digest(folder / "other")));
  EXPECT_EQ(small.size(), 32u);
  EXPECT_EQ(take(sample_digest(folder / "empty")).size(), 32u);
  // Below 2 MiB every byte counts; above, the first and the last do.
  std::string big(2 << 20, 'a');
  write_file(folder / "big", big);
  const std::string before = take(sample_digest(folder / "big"));
  big[1234567] = 'b';
  write_file(folder / "big", big);
  EXPECT_NE(before, take(sample_digest(folder / "big")));
  std::string huge(5'000'001, 'a');
  write_file(folder / "huge", huge);
  const std::string huge_before = take(sample_digest(folder / "huge"));
  huge.front() = 'b';
  write_file(folder / "huge", huge);
  EXPECT_NE(huge_before, take(sample_digest(folder / "huge")));
}

TEST_F(JournalTest, intact_means_present_with_size_and_content) {
  write_file(folder / "f", "hello");
  FinishedFile file{"f", 5, take(sample_digest(folder / "f")), ""};
  EXPECT_TRUE(is_intact(folder.path(), file));
  write_file(folder / "f", "hellO");
  EXPECT_FALSE(is_intact(folder.path(), file));
  write_file(folder / "f", "hello!");
  EXPECT_FALSE(is_intact(folder.path(), file));
  std::filesystem::remove(folder / "f");
  EXPECT_FALSE(is_intact(folder.path(), file));
}

}  // namespace
}  // namespace microscale
