// Several ranks over one folder: the same bytes as one, whoever is killed.
#include "checkpoint/ranks.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>

#include "checkpoint/convert.hpp"
#include "checkpoint/journal.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::options_for;
using testing::read_folder;
using testing::TemporaryFolder;

// The sample model over six shards; its fused groups lie in several.
testing::TestModel six_shards() {
  testing::TestModel model = testing::sample_model();
  const std::vector<testing::TestTensors> two = model.shards;
  model.shards.assign(6, {});
  std::size_t next = 0;
  for (const testing::TestTensors& shard : two) {
    for (const auto& [name, tensor] : shard) model.shards[next++ % 6][name] = tensor;
  }
  return model;
}

// Ranks that are threads of the test.
class Meeting {
 public:
  explicit Meeting(int count) : count_(count) {
    pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(count));
  }
  ~Meeting() { pthread_barrier_destroy(&barrier_); }

  class Member : public Ranks {
   public:
    Member(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
    int rank() const override { return rank_; }
    int count() const override { return meeting_.count_; }
    std::string from_first(const std::string& text) override {
      if (rank_ == 0) meeting_.text_ = text;
      wait_for_all();
      std::string received = meeting_.text_;
      wait_for_all();
      return received;
    }
    void wait_for_all() override { pthread_barrier_wait(&meeting_.barrier_); }

   private:
    Meeting& meeting_;
    int rank_;
  };

 private:
  const int count_;
  pthread_barrier_t
      barrier_;  // not std's: ThreadSanitizer sees this one in tests that are not built for it
  std::string text_;
};

// One rank of several whose others never come: what it leaves is what a killed job leaves.
class Deserted : public Ranks {
 public:
  Deserted(int rank, int count, std::string first) : rank_(rank), count_(count), first_(first) {}
  int rank() const override { return rank_; }
  int count() const override { return count_; }
  std::string from_first(const std::string& text) override {
    if (rank_ == 0) return text;
    return text.empty() || first_.empty() ? text : first_;
  }
  void wait_for_all() override {}

 private:
  int rank_, count_;
  std::string first_;
};

class ConvertRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    six_shards().write(folder / "in");
    report = to_json(convert_model(options()).report);
    undisturbed = read_folder(folder / "out");
    fs::remove_all(folder / "out");
  }
  QuantizeModelOptions options(bool resume = false) const {
    QuantizeModelOptions options = options_for(folder, Format::nvfp4, 1);
    options.resume = resume;
    return options;
  }
  // The report of rank 0.
  std::string run_together(int count, bool resume = false) {
    Meeting meeting(count);
    std::string first;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        Meeting::Member member(meeting, rank);
        const Conversion conversion = convert_model(options(resume), {}, member);
        if (rank == 0) first = to_json(conversion.report);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return first;
  }

  TemporaryFolder folder;
  std::map<std::string, std::string> undisturbed;
  std::string report;
};

TEST_F(ConvertRanks, write_the_bytes_and_the_report_of_one) {
  for (const int count : {1, 2, 3, 5, 8}) {  // 8: two have nothing to do
    SCOPED_TRACE(count);
    EXPECT_EQ(run_together(count), report);
    EXPECT_TRUE(read_folder(folder / "out") == undisturbed);
    fs::remove_all(folder / "out");
  }
}

TEST_F(ConvertRanks, resume_what_a_killed_job_left_with_any_number) {
  for (const int count : {1, 2, 4}) {
    SCOPED_TRACE(count);
    Deserted first(0, 3, "");
    expect_error(ErrorCode::io, " has ended, but 'model-",
                 [&] { convert_model(options(), {}, first); });
    Deserted third(2, 3, "");
    convert_model(options(true), {}, third);  // killed before rank 0 took its journal
    EXPECT_TRUE(fs::exists(folder / "out" / fs::path(std::string(journal_name) + ".2")));
    EXPECT_FALSE(fs::exists(folder / "out/config.json"));
    EXPECT_EQ(run_together(count, true), report);
    EXPECT_TRUE(read_folder(folder / "out") == undisturbed);
    fs::remove_all(folder / "out");
  }
}

TEST_F(ConvertRanks, say_who_was_given_other_options) {
  Deserted second(1, 2, R"({"journal":1,"of":{"option format":"MXFP4"}})");
  expect_error(ErrorCode::invalid_argument, "rank 1 was started otherwise than rank 0: ", [&] {
    convert_model(options(), {}, second);
  });
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(ShareOut, gives_the_largest_shard_first_to_who_has_least) {
  testing::TestModel model;
  model.shards.resize(4);
  for (std::size_t shard = 0; shard < 4; ++shard) {
    const std::int64_t rows = std::array<std::int64_t, 4>{64, 256, 128, 64}[shard];
    model.shards[shard]["a." + std::to_string(shard) + ".o_proj.weight"] =
        testing::random_tensor(StoredType::bf16, {rows, 64}, 1);
  }
  const TemporaryFolder folder;
  model.write(folder / "in");
  const ModelPlan plan = take(make_model_plan(options_for(folder, Format::mxfp4)));
  EXPECT_EQ(share_out(plan, std::vector<bool>(4, false), 2), (std::vector<int>{1, 0, 1, 1}));
  EXPECT_EQ(share_out(plan, {false, true, false, false}, 2), (std::vector<int>{1, -1, 0, 1}));
  EXPECT_EQ(share_out(plan, std::vector<bool>(4, false), 1), (std::vector<int>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace microscale
