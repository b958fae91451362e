// A disk that is nearly full: what an interrupted run has written or reserved is not asked for
// again. The disk is a file system of its own in memory, in a namespace of a child process.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "checkpoint/file.hpp"
#include "checkpoint/model_plan.hpp"
#include "model_builder.hpp"
#include "support/present.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr int not_allowed = 77;
constexpr std::uint64_t slack = 192 * 1024;  // whole pages of small files; less than any shard

void write_word(const char* file, const std::string& word) {
  std::ofstream(file, std::ios::binary) << word;
}

// A file system of `bytes` at `folder`, which only this process sees.
bool mount_small(const fs::path& folder, std::uint64_t bytes) {
  const std::string user = std::to_string(::getuid()), group = std::to_string(::getgid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  write_word("/proc/self/setgroups", "deny");
  write_word("/proc/self/uid_map", "0 " + user + " 1");
  write_word("/proc/self/gid_map", "0 " + group + " 1");
  const std::string size = "size=" + std::to_string(bytes);
  return ::mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

class ConvertRoom : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::TestModel model;
    model.shards.resize(2);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".mlp.";
      for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
        model.shards[i][layer + name + ".weight"] =
            testing::random_tensor(StoredType::bf16, {512, 1024}, static_cast<unsigned>(i));
      }
    }
    model.config = R"({"model_type": "small"})";
    model.other_files["voice.pt"] = std::string(400'000, 'v');
    model.write(folder_ / "in");
    fs::create_directory(folder_ / "disk");
    options_.input = folder_ / "in";
    options_.output = folder_ / "disk" / fs::path("out");
    options_.format = Format::nvfp4;
    options_.threads = 1;
    needed_ = static_cast<std::uint64_t>(plan_quantize_model(options_).disk_needed);
  }

  // What `body` says is wrong, on a disk that holds the output and little more.
  void on_small_disk(const std::function<std::string()>& body) const {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (!mount_small(folder_ / "disk", needed_ + slack)) ::_exit(not_allowed);
      std::string text;
      try {
        text = body();
      } catch (const std::exception& error) {
        text = error.what();
      }
      if (::write(ends[1], text.data(), text.size()) < 0) ::_exit(1);
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string text(4096, '\0');
    const ssize_t count = ::read(ends[0], text.data(), text.size());
    ::close(ends[0]);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == not_allowed) {
      test::note_absent("a file system of its own, which this kernel does not allow");
      GTEST_SKIP() << "user namespaces are not allowed here";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(text, "");
  }

  // As SIGKILL leaves it: one shard finished, the other reserved, a side file copied.
  std::string interrupt() const {
    const fs::path out = options_.output, first = out / "model-00001-of-00002.safetensors";
    try {
      quantize_model(options_, [&](std::int64_t, std::int64_t, std::string_view) {
        return !fs::exists(first);
      });
      return "was not interrupted";
    } catch (const Error& error) {
      if (error.code() != ErrorCode::interrupted) throw;
    }
    const fs::path reserved = out / "model-00002-of-00002.safetensors.partial";
    const int file = ::open(reserved.c_str(), O_CREAT | O_WRONLY, 0600);
    const bool done = ::posix_fallocate(file, 0, static_cast<off_t>(fs::file_size(first))) == 0;
    ::close(file);
    fs::copy_file(folder_ / "in/voice.pt", out / "voice.pt");
    return done ? "" : "nothing could be reserved";
  }

  testing::TemporaryFolder folder_;
  QuantizeModelOptions options_;
  std::uint64_t needed_ = 0;
};

TEST_F(ConvertRoom, of_an_interrupted_run_is_not_asked_for_again) {
  on_small_disk([&]() -> std::string {
    if (std::string problem = interrupt(); !problem.empty()) return problem;
    if (take(free_space(options_.output)) >= needed_ / 2) return "the disk is not nearly full";
    QuantizeModelOptions resumed = options_;
    resumed.resume = true;
    const ConversionPlan plan = plan_quantize_model(resumed);
    if (plan.disk_free < plan.disk_needed) return "a dry run finds no room";
    quantize_model(resumed);
    return fs::exists(options_.output / "config.json") ? "" : "no config.json";
  });
}

TEST_F(ConvertRoom, that_is_not_there_is_an_error_before_work_begins) {
  on_small_disk([&]() -> std::string {
    if (std::string problem = interrupt(); !problem.empty()) return problem;
    fs::remove(options_.output / "model-00002-of-00002.safetensors.partial");
    std::ofstream(folder_ / "disk/other") << std::string(2 * slack, 'x');
    QuantizeModelOptions resumed = options_;
    resumed.resume = true;
    const ConversionPlan plan = plan_quantize_model(resumed);
    if (plan.disk_free >= plan.disk_needed) return "a dry run finds room";
    try {
      quantize_model(resumed);
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.find("bytes are needed in") == text.npos ? text : "";
    }
    return "it found room";
  });
}

}  // namespace
}  // namespace microscale
