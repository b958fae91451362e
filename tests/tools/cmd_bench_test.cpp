// bench: figures that hang together, and what it refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "microscale/cuda.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> small{"bench", "quantize", "--size", "1MiB", "--threads", "1"};

std::vector<std::string> small_with(std::vector<std::string> more) {
  more.insert(more.begin(), small.begin(), small.end());
  return more;
}

TEST(Bench, has_a_rate_and_its_limit_for_every_case) {
  const Outcome outcome = microscale(small_with({"--json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_GE(json["cases"].size(), 10u);
  for (const Json& row : json["cases"]) {
    const double rate = row["bytes_per_second"];
    EXPECT_GT(rate, 1e6) << row;
    EXPECT_NEAR(row["share_of_loop"].get<double>(),
                rate / row["loop_bytes_per_second"].get<double>(), 1e-6)
        << row;
    EXPECT_NEAR(row["bytes"].get<double>() / row["seconds"].get<double>(), rate, rate * 1e-9);
    EXPECT_GT(row["bytes"].get<double>(), 1 << 20);
  }
}

TEST(Bench, times_only_what_the_filter_leaves) {
  const Json json = Json::parse(microscale(small_with({"--json", "--filter", "nvfp4 to"})).out);
  ASSERT_EQ(json["cases"].size(), 1u);
  EXPECT_EQ(json["cases"][0]["case"], "nvfp4 to bf16");
  EXPECT_EQ(json["cases"][0]["threads"], 1);
  const Outcome nothing = microscale(small_with({"--filter", "mxfp5"}));
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("leaves no case"), std::string::npos) << nothing.err;
}

TEST(Bench, prints_a_table) {
  const Outcome outcome = microscale(small_with({"--filter", "mxfp8 to"}));
  EXPECT_EQ(outcome.code, 0);
  for (const char* word : {"case", "loop GB/s", "must", "mxfp8 to bf16", "0.80"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << outcome.out;
}

TEST(Bench, refuses_what_it_cannot_time) {
  EXPECT_EQ(microscale({"bench"}).code, 2);
  EXPECT_EQ(microscale({"bench", "matmul"}).code, 2);
  EXPECT_EQ(microscale({"bench", "quantize", "--size", "1000"}).code, 2);
  EXPECT_EQ(microscale({"bench", "quantize", "--device", "gpu"}).code, 2);
}

TEST(Bench, says_that_there_is_no_gpu) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "there is a GPU; scripts/gpu_check times it";
  const Outcome outcome = microscale({"bench", "quantize", "--device", "cuda"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("use --device cpu"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

}  // namespace
}  // namespace microscale::testing
