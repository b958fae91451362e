#include "report/progress.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "report/terminal.hpp"

namespace microscale {
namespace {

/// A progress display on a temporary file, with a clock set by hand.
class Display {
 public:
  explicit Display(ProgressOptions options) : file_(std::tmpfile()) {
    options.stream = file_;
    options.clock = [this] { return now; };
    progress.emplace(std::move(options));
  }
  ~Display() {
    progress.reset();
    std::fclose(file_);
  }

  std::string text() const {
    std::fflush(file_);
    const long size = std::ftell(file_);
    std::string text(static_cast<std::size_t>(size), '\0');
    std::rewind(file_);
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }

  double now = 100;
  std::optional<Progress> progress;

 private:
  std::FILE* file_;
};

constexpr std::uint64_t mb = 1'000'000;

TEST(Progress, writes_plain_lines_to_a_file) {
  Display display({.operation = "quantize", .total_bytes = 1000 * mb});
  for (int i = 1; i <= 40; ++i) {
    display.now = 100 + i;  // 5 MB a second: a line each 5 s
    display.progress->update(static_cast<std::uint64_t>(5 * i) * mb, "layers.0.q_proj");
  }
  display.now = 140.5;  // 10 % more, but within a second of the last line
  display.progress->update(400 * mb, "layers.1");
  display.now = 141.5;
  display.progress->update(400 * mb, "layers.1");
  display.now = 150;
  display.progress->update(1000 * mb);
  display.progress->finish();
  display.progress->update(1000 * mb, "late");

  std::istringstream lines(display.text());
  std::vector<std::string> got;
  for (std::string line; std::getline(lines, line);) got.push_back(line);
  ASSERT_EQ(got.size(), 11u);
  EXPECT_EQ(got[0], "quantize: 25.0 MB of 1.0 GB, 2 %, 5.0 MB/s, 3:15 left, layers.0.q_proj");
  EXPECT_EQ(got[7], "quantize: 200.0 MB of 1.0 GB, 20 %, 5.0 MB/s, 2:40 left, layers.0.q_proj");
  EXPECT_EQ(got[8].rfind("quantize: 400.0 MB of 1.0 GB, 40 %, ", 0), 0u) << got[8];
  EXPECT_EQ(got[9].rfind("quantize: 1.0 GB of 1.0 GB, 100 %, ", 0), 0u) << got[9];
  EXPECT_EQ(got[10], "quantize: 1.0 GB in 50.0 s, 20.0 MB/s");
}

TEST(Progress, counts_resumed_bytes_as_done_but_not_as_fast) {
  Display display({.operation = "quantize", .total_bytes = 1000 * mb, .start_bytes = 900 * mb});
  display.now += 10;
  display.progress->add(50 * mb, "a");
  display.progress->finish();
  EXPECT_EQ(display.text(),
            "quantize: 950.0 MB of 1.0 GB, 95 %, 5.0 MB/s, 0:10 left, a\n"
            "quantize: 50.0 MB in 10.0 s, 5.0 MB/s\n");
}

TEST(Progress, bar_fits_every_width_and_redraws_at_most_ten_times_a_second) {
  for (const int width : {20, 30, 40, 60, 80, 120, 200}) {
    Display display({.mode = ProgressMode::bar,
                     .operation = "quantize",
                     .total_bytes = 100 * mb,
                     .width = width});
    for (int i = 0; i <= 1000; ++i) {
      display.now = 100 + i * 0.001;
      display.progress->update(static_cast<std::uint64_t>(i) * mb / 20,
                               "model.layers.12.self_attn.q_proj.weight");
    }
    display.progress->finish();
    std::istringstream draws(display.text());
    std::string draw;
    std::getline(draws, draw, '\r');  // before the first
    int count = 0;
    while (std::getline(draws, draw, '\r')) {
      ++count;
      const std::size_t end = draw.find("\x1b[K");
      ASSERT_NE(end, std::string::npos);
      if (draw.ends_with("\n")) continue;  // the last
      EXPECT_LT(display_width(draw.substr(0, end)), width) << draw;
    }
    EXPECT_GE(count, 10);
    EXPECT_LE(count, 12);
  }
}

TEST(Progress, last_line_breaks_where_the_terminal_ends) {
  Display display(
      {.mode = ProgressMode::bar, .operation = "dequantize", .total_bytes = 100 * mb, .width = 40});
  display.now += 10;
  display.progress->update(100 * mb);
  display.progress->finish();
  EXPECT_TRUE(
      display.text().ends_with("\rdequantize: 100.0 MB in 10.0 s,\x1b[K\n  10.0 MB/s\x1b[K\n"))
      << display.text();
}

TEST(Progress, bar_says_how_much_how_fast_and_how_long) {
  Display display(
      {.mode = ProgressMode::bar, .operation = "quantize", .total_bytes = 100 * mb, .width = 100});
  display.now += 2;
  display.progress->update(50 * mb, "layers.7.up_proj");
  display.progress->abort();
  EXPECT_EQ(display.text(),
            "\rquantize   50 %  [############............]  25.0 MB/s  ETA 0:02  "
            "layers.7.up_proj\x1b[K\n");
}

TEST(Progress, json_events_are_one_object_a_line) {
  {
    Display display({.mode = ProgressMode::json, .operation = "quantize", .total_bytes = 100});
    for (int i = 1; i <= 100; ++i) {
      display.now = 100 + i * 0.02;
      display.progress->update(static_cast<std::uint64_t>(i), "bad \xff \"name\"\n");
    }
    display.progress->finish();
    std::istringstream lines(display.text());
    std::vector<nlohmann::json> events;
    for (std::string line; std::getline(lines, line);)
      events.push_back(nlohmann::json::parse(line));
    ASSERT_EQ(events.size(), 6u);  // start, one each half second, finish
    EXPECT_EQ(events[0]["event"], "start");
    EXPECT_TRUE(events[0]["eta_seconds"].is_null());
    EXPECT_EQ(events[2]["event"], "progress");
    EXPECT_EQ(events[2]["bytes_total"], 100);
    EXPECT_EQ(events[2]["item"], "bad \ufffd \"name\"\n");
    EXPECT_NEAR(events[2]["bytes_per_second"].get<double>(), 50, 1e-6);
    EXPECT_EQ(events[5]["event"], "finish");
    EXPECT_EQ(events[5]["bytes_done"], 100);
  }
  Display aborted({.mode = ProgressMode::json});
  aborted.progress->abort();
  aborted.progress->abort();
  EXPECT_NE(aborted.text().find("\"abort\""), std::string::npos);
  EXPECT_EQ(aborted.text().find("\"abort\""), aborted.text().rfind("\"abort\""));
}

TEST(Progress, adds_up_over_threads) {
  Display display({.mode = ProgressMode::lines, .total_bytes = 80000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) display.progress->add(1, "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(display.progress->bytes_done(), 80000u);
  display.progress->update(5);  // never back
  EXPECT_EQ(display.progress->bytes_done(), 80000u);
}

TEST(Progress, without_a_stream_is_silent) {
  Progress progress({.operation = "quantize", .total_bytes = 10});
  progress.add(10, "x");
  progress.finish();
  EXPECT_EQ(progress.bytes_done(), 10u);
}

}  // namespace
}  // namespace microscale
