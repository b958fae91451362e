// Progress of a long operation: a bar on a terminal, plain lines elsewhere, JSON events on request.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "report/terminal.hpp"

namespace microscale {

enum class ProgressMode {
  automatic,  ///< bar on a terminal, else lines; NO_COLOR, CI and TERM=dumb mean lines
  bar,        ///< one line redrawn at most 10 times a second
  lines,      ///< a line per 5 s, or per 10 % but at most one a second
  json,       ///< one object a line: start, progress (at most 2 a second), finish or abort
  silent,
};

struct ProgressOptions {
  std::FILE* stream = nullptr;  ///< where to draw (stderr); nullptr: silent
  ProgressMode mode = ProgressMode::automatic;
  std::string operation = {};     ///< first word of each line: "quantize"
  std::uint64_t total_bytes = 0;  ///< 0: unknown, no percentage
  std::uint64_t start_bytes = 0;  ///< done by an earlier run: counts as done, not towards the rate
  std::function<double()> clock = {};  ///< seconds, never going back; empty: the steady clock
  int width = 0;                       ///< columns; 0: ask the terminal at each draw
};

/// Draws itself when told of progress, and never oftener than its mode says. All calls may come
/// from any thread. An unfinished one is aborted on destruction.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `bytes` more are done; `item` (a tensor or file name) is what is being worked on now.
  void add(std::uint64_t bytes, std::string_view item = {});
  /// `bytes_done` in all, start_bytes included; less than before is ignored.
  void update(std::uint64_t bytes_done, std::string_view item = {});
  /// Ends with a line that says how much in what time. Later calls do nothing.
  void finish();
  /// Ends the line where it is, so that an error message starts on its own. Later calls do nothing.
  void abort();

  std::uint64_t bytes_done() const { return done_.load(std::memory_order_relaxed); }

 private:
  void draw_if_due(std::string_view item);
  void draw(double now, std::string_view item);
  void measure_rate(double now, std::uint64_t done);
  void write(const std::string& text);
  int width() const;  // 0: of no terminal
  std::string bar_text(std::uint64_t done, int width) const;
  std::string line_text(std::uint64_t done) const;
  std::string json_text(const char* event, double now) const;
  double share(std::uint64_t done) const;
  double eta(std::uint64_t done) const;

  ProgressOptions options_;
  std::atomic<std::uint64_t> done_;
  std::atomic<double> next_draw_;  // no draw before this time
  std::mutex mutex_;               // held while drawing; guards everything below
  double start_ = 0;
  double last_time_ = 0;  // of the last rate sample
  std::uint64_t last_done_ = 0;
  double last_line_ = 0;  // lines mode: when and at how many bytes the last line was written
  std::uint64_t last_line_done_ = 0;
  double rate_ = 0;  // bytes per second, exponentially weighted; 0: unknown
  std::string item_;
  TextStyle style_;
  bool drawn_ = false;
  bool ended_ = false;
};

}  // namespace microscale
