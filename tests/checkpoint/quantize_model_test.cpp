// The public call: what it refuses, and that an interrupted run can be finished.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <limits>

#include "checkpoint/convert.hpp"
#include "checkpoint/journal.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::attention;
using testing::expect_error;
using testing::options_for;
using testing::random_tensor;
using testing::read_folder;
using testing::sample_model;
using testing::TemporaryFolder;
using testing::TestModel;

using Files = std::map<std::string, std::string>;

class QuantizeModel : public ::testing::Test {
 protected:
  // The sample model, what its conversion looks like undisturbed, and its report.
  void SetUp() override {
    sample_model().write(folder / "in");
    const Conversion conversion = convert_model(options());
    undisturbed = read_folder(folder / "out");
    report = to_json(conversion.report);
    fs::remove_all(folder / "out");
  }

  QuantizeModelOptions options(bool resume = false) const {
    QuantizeModelOptions options = options_for(folder, Format::nvfp4, 1);
    options.resume = resume;
    return options;
  }

  // Runs in a child that ends by a signal or by itself; one thread, since others do not survive a
  // fork.
  static void in_child(const std::function<void()>& body) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        body();
      } catch (...) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << "the child threw";
  }

  // No file may carry its final name before it is complete.
  void expect_only_complete_files() const {
    if (!fs::exists(folder / "out")) return;
    for (const auto& [name, text] : read_folder(folder / "out")) {
      if (name == journal_name || name.ends_with(".partial")) continue;
      EXPECT_TRUE(undisturbed.contains(name)) << name;
      EXPECT_TRUE(text == undisturbed.at(name)) << name;
    }
  }

  void resume_and_compare() {
    const bool finished = fs::exists(folder / "out/config.json") &&
                          !fs::exists(folder / "out" / fs::path(journal_name));
    if (!finished) {
      const Conversion conversion = convert_model(options(true));
      EXPECT_EQ(to_json(conversion.report), report);
    }
    EXPECT_TRUE(read_folder(folder / "out") == undisturbed);
    fs::remove_all(folder / "out");
  }

  TemporaryFolder folder;
  Files undisturbed;
  std::string report;
};

TEST_F(QuantizeModel, killed_at_any_step_resumes_to_the_same_bytes_and_report) {
  int steps = 0;
  convert_model(options(),
                [&](std::int64_t, std::int64_t, std::string_view) { return ++steps > 0; });
  fs::remove_all(folder / "out");
  ASSERT_GT(steps, 20);
  for (int at = 1; at <= steps; ++at) {
    SCOPED_TRACE(at);
    in_child([&] {
      int step = 0;
      convert_model(options(), [&](std::int64_t, std::int64_t, std::string_view) {
        if (++step == at) ::kill(::getpid(), SIGKILL);
        return true;
      });
    });
    expect_only_complete_files();
    resume_and_compare();
  }
}

TEST_F(QuantizeModel, killed_again_and_again_at_random_moments_still_finishes) {
  std::mt19937 random(3);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    for (int kills = 0; kills < 3; ++kills) {
      const auto microseconds = 1 + static_cast<suseconds_t>(random() % 30'000);
      const bool first = kills == 0;
      const bool finished = fs::exists(folder / "out/config.json");
      if (finished) break;
      in_child([&] {
        const itimerval alarm{{0, 0}, {0, microseconds}};
        ::setitimer(ITIMER_REAL, &alarm, nullptr);  // SIGALRM ends the process where it stands
        convert_model(options(!first));
      });
      expect_only_complete_files();
    }
    resume_and_compare();
  }
}

TEST_F(QuantizeModel, stopped_by_the_callback_leaves_no_partial_file_and_resumes) {
  int step = 0;
  expect_error(ErrorCode::interrupted, "run again with --resume to finish", [&] {
    quantize_model(options(),
                   [&](std::int64_t, std::int64_t, std::string_view) { return ++step < 12; });
  });
  EXPECT_TRUE(fs::exists(folder / "out" / fs::path(journal_name)));
  for (const auto& [name, text] : read_folder(folder / "out"))
    EXPECT_FALSE(name.ends_with(".partial")) << name;
  resume_and_compare();
}

// Stops once the first shard is finished.
class QuantizeModelHalfway : public QuantizeModel {
 protected:
  void SetUp() override {
    QuantizeModel::SetUp();
    const fs::path first = folder / "out" / fs::path("model-00001-of-00002.safetensors");
    expect_error(ErrorCode::interrupted, "interrupted", [&] {
      quantize_model(options(), [&](std::int64_t, std::int64_t, std::string_view) {
        return !fs::exists(first);
      });
    });
    ASSERT_TRUE(fs::exists(first));
  }
};

TEST_F(QuantizeModelHalfway, resume_trusts_what_is_finished_and_intact) {
  const fs::path first = folder / "out/model-00001-of-00002.safetensors";
  const auto written = fs::last_write_time(first);
  std::int64_t least = -1;
  quantize_model(options(true), [&](std::int64_t done, std::int64_t, std::string_view) {
    if (least < 0) least = done;
    return true;
  });
  EXPECT_EQ(fs::last_write_time(first), written) << "a finished file is not written again";
  EXPECT_GT(least, 0) << "and counts as done from the start";
  EXPECT_TRUE(read_folder(folder / "out") == undisturbed);
}

TEST_F(QuantizeModelHalfway, resume_redoes_what_is_damaged_or_missing) {
  const fs::path first = folder / "out/model-00001-of-00002.safetensors";
  std::string text = testing::read_file(first);
  text[text.size() / 2] ^= 1;
  testing::write_file(first, text);
  resume_and_compare();
}

TEST_F(QuantizeModelHalfway, resume_refuses_changed_options) {
  QuantizeModelOptions other = options(true);
  other.numerics.scale_rule = ScaleRule::nearest;
  expect_error(ErrorCode::invalid_argument, "option scale rule was search, now it is nearest",
               [&] { quantize_model(other); });
  other = options(true);
  other.format = Format::mxfp4;
  expect_error(ErrorCode::invalid_argument, "option format was nvfp4, now it is mxfp4",
               [&] { quantize_model(other); });
  other = options(true);
  other.ignore = {"*.o_proj"};
  expect_error(ErrorCode::invalid_argument, "option ignore was none",
               [&] { quantize_model(other); });
  other = options(true);
  other.threads = 3;
  other.max_memory /= 2;
  quantize_model(other);
  EXPECT_TRUE(read_folder(folder / "out") == undisturbed) << "threads and memory change no byte";
}

TEST_F(QuantizeModelHalfway, resume_refuses_changed_input) {
  const fs::path file = folder / "in/model-00002-of-00002.safetensors";
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(2));
  expect_error(ErrorCode::invalid_argument, "input model-00002-of-00002.safetensors was of",
               [&] { quantize_model(options(true)); });
}

TEST_F(QuantizeModelHalfway, resume_refuses_another_file_beside_the_model) {
  testing::write_file(folder / "in/chat_template.jinja", "new");
  expect_error(ErrorCode::invalid_argument, "input chat_template.jinja was absent",
               [&] { quantize_model(options(true)); });
}

TEST_F(QuantizeModelHalfway, without_resume_is_refused_and_says_so) {
  expect_error(ErrorCode::invalid_argument, "pass --resume to continue it",
               [&] { quantize_model(options()); });
}

TEST(QuantizeModelInput, cannot_be_the_unfinished_output_of_a_run) {
  TestModel model;
  model.shards[0]["a.o_proj.weight"] = random_tensor(StoredType::f32, {16, 32}, 1);
  model.other_files[std::string(journal_name)] = "{}\n";
  const TemporaryFolder folder;
  model.write(folder / "in");
  expect_error(ErrorCode::bad_input, "is the unfinished output of another run",
               [&] { quantize_model(options_for(folder, Format::nvfp4)); });
}

TEST_F(QuantizeModel, resume_takes_an_empty_folder_as_a_fresh_start_and_what_is_done_as_done) {
  quantize_model(options(true));
  EXPECT_TRUE(read_folder(folder / "out") == undisturbed) << "nothing there yet";
  quantize_model(options(true));
  EXPECT_TRUE(read_folder(folder / "out") == undisturbed) << "nothing to do";
  QuantizeModelOptions other = options(true);
  other.format = Format::mxfp4;
  expect_error(ErrorCode::invalid_argument, "holds no journal", [&] { quantize_model(other); });
  expect_error(ErrorCode::invalid_argument, "is not empty", [&] { quantize_model(options()); });
  EXPECT_TRUE(read_folder(folder / "out") == undisturbed) << "a refusal touches nothing";
}

TEST_F(QuantizeModel, full_disk_is_a_clear_error_and_resume_goes_on) {
  // A limit on file size fails like a full disk, with EFBIG for ENOSPC.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = undisturbed.at("model-00001-of-00002.safetensors").size() / 2;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error(ErrorCode::io, "do not fit on the disk", [&] { quantize_model(options()); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  expect_only_complete_files();
  resume_and_compare();
}

TEST_F(QuantizeModel, output_must_be_apart_from_the_input) {
  const Files input = read_folder(folder / "in");
  const auto refuse = [&](const fs::path& output, const std::string& phrase) {
    QuantizeModelOptions bad = options();
    bad.output = output;
    expect_error(ErrorCode::invalid_argument, phrase, [&] { quantize_model(bad); });
    expect_error(ErrorCode::invalid_argument, phrase, [&] { plan_quantize_model(bad); });
    bad.resume = true;
    expect_error(ErrorCode::invalid_argument, phrase, [&] { quantize_model(bad); });
  };
  refuse(folder / "in", "is the input");
  refuse(folder / "in/", "is the input");
  refuse(folder / "x/../in", "is the input");
  refuse(folder / "in/sub/out", "is inside the input");
  refuse(folder.path(), "holds the input");
  fs::create_directory_symlink(folder / "in", folder / "link");
  refuse(folder / "link", "is the input");
  refuse(folder / "link/out", "is inside the input");
  EXPECT_TRUE(read_folder(folder / "in") == input);
  QuantizeModelOptions none = options();
  none.output.clear();
  expect_error(ErrorCode::invalid_argument, "no output folder was named",
               [&] { quantize_model(none); });
  testing::write_file(folder / "file", "x");
  none.output = folder / "file";
  expect_error(ErrorCode::invalid_argument, "is no folder", [&] { quantize_model(none); });
}

TEST_F(QuantizeModel, refuses_what_it_cannot_do_before_writing) {
  QuantizeModelOptions bad = options();
  bad.format = Format::mxint8;
  expect_error(ErrorCode::unsupported, "no checkpoint container", [&] { quantize_model(bad); });
  bad = options();
  bad.numerics.scale_rule = ScaleRule::floor;
  expect_error(ErrorCode::invalid_argument, "nvfp4 has no scale rule floor",
               [&] { quantize_model(bad); });
  bad = options();
  bad.ignore = {"*"};
  expect_error(ErrorCode::invalid_argument, "nothing in", [&] { quantize_model(bad); });
  bad = options();
  bad.max_memory = 1 << 20;
  expect_error(ErrorCode::out_of_memory, "memory limit of 1 MiB is too small",
               [&] { quantize_model(bad); });
  bad = options();
  bad.input = folder / "absent";
  expect_error(ErrorCode::io, "cannot open", [&] { quantize_model(bad); });
  bad = options();
  bad.importance = folder / "in/model-00001-of-00002.safetensors";
  expect_error(ErrorCode::bad_input, "has the name of a module", [&] { quantize_model(bad); });
  EXPECT_FALSE(fs::exists(folder / "out"));
}

// Where the first bad element is, whatever the order in which workers find them.
TEST(QuantizeModelNonFinite, names_tensor_and_position_of_the_first) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(),
                  inf = std::numeric_limits<float>::infinity();
  for (const StoredType type : {StoredType::f32, StoredType::f16, StoredType::bf16}) {
    for (const Format format : {Format::nvfp4, Format::mxfp4}) {
      for (const int threads : {1, 4}) {
        std::vector<float> values(300 * 64, 0.5f);
        values[200 * 64 + 5] = inf;
        values[7 * 64 + 63] = nan;
        TestModel model;
        model.shards[0]["a.o_proj.weight"] = testing::tensor_of(type, {300, 64}, values);
        model.shards[0]["b.o_proj.weight"] =
            testing::tensor_of(type, {300, 64}, std::vector<float>(300 * 64, inf));
        const TemporaryFolder folder;
        model.write(folder / "in");
        expect_error(ErrorCode::bad_input,
                     "tensor 'a.o_proj.weight' in '" + (folder / "in").string(),
                     [&] { quantize_model(options_for(folder, format, threads)); });
        fs::remove_all(folder / "out");
        expect_error(ErrorCode::bad_input, "is NaN at [7, 63]",
                     [&] { quantize_model(options_for(folder, format, threads)); });
        fs::remove_all(folder / "out");
        QuantizeModelOptions without = options_for(folder, format, threads);
        without.ignore = {"a.o_proj"};
        expect_error(ErrorCode::bad_input, "'b.o_proj.weight'", [&] { quantize_model(without); });
        EXPECT_FALSE(fs::exists(folder / "out/model.safetensors"));
      }
    }
  }
}

TEST(QuantizeModelNonFinite, position_in_fused_experts_is_that_of_the_stored_tensor) {
  TestModel model;
  std::vector<float> values(2 * 64 * 32, 0.25f);
  values[(1 * 64 + 37) * 32 + 9] = std::numeric_limits<float>::infinity();
  model.shards[0]["m.experts.gate_up_proj"] =
      testing::tensor_of(StoredType::bf16, {2, 64, 32}, values);
  model.shards[0]["m.experts.down_proj"] = random_tensor(StoredType::bf16, {2, 32, 32}, 1);
  model.config = R"({"model_type": "llama4"})";
  const TemporaryFolder folder;
  model.write(folder / "in");
  expect_error(ErrorCode::bad_input, "'m.experts.gate_up_proj'",
               [&] { quantize_model(options_for(folder, Format::mxfp4)); });
  fs::remove_all(folder / "out");
  expect_error(ErrorCode::bad_input, "is infinite at [1, 37, 9]",
               [&] { quantize_model(options_for(folder, Format::nvfp4)); });
}

TEST(QuantizeModelNonFinite, copied_tensors_may_hold_anything) {
  TestModel model;
  model.shards[0]["a.o_proj.weight"] = random_tensor(StoredType::f32, {16, 32}, 1);
  model.shards[0]["model.norm.weight"] =
      testing::tensor_of(StoredType::f32, {2}, {std::numeric_limits<float>::quiet_NaN(), 1.0f});
  const TemporaryFolder folder;
  model.write(folder / "in");
  quantize_model(options_for(folder, Format::nvfp4));
  EXPECT_EQ(testing::read_tensors(folder / "out").at("model.norm.weight"),
            model.shards[0].at("model.norm.weight"));
}

}  // namespace
}  // namespace microscale
