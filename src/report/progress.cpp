// Drawing progress: when it is due, and what it says in each mode.
#include "report/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "report/terminal.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

constexpr double rate_memory_s = 5;  // time constant of the rate's average

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgressMode chosen_mode(const ProgressOptions& options) {
  if (options.stream == nullptr) return ProgressMode::silent;
  if (options.mode != ProgressMode::automatic) return options.mode;
  const bool moves = terminal_width(fileno(options.stream)) > 0 && !plain_text_wanted();
  return moves ? ProgressMode::bar : ProgressMode::lines;
}

/// Seconds between two draws.
double interval_s(ProgressMode mode) {
  switch (mode) {
    case ProgressMode::bar:
      return 0.1;
    case ProgressMode::json:
      return 0.5;
    default:
      return 1;
  }
}

std::string bar_of(double share, int width, bool boxes) {
  const int full = static_cast<int>(share * width);
  std::string bar;
  for (int i = 0; i < width; ++i) {
    bar += i < full ? (boxes ? "\u2588" : "#") : (boxes ? "\u2591" : ".");
  }
  return boxes ? bar : "[" + bar + "]";
}

}  // namespace

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)), done_(options_.start_bytes), next_draw_(0) {
  options_.mode = chosen_mode(options_);
  if (!options_.clock) options_.clock = steady_seconds;
  start_ = last_time_ = last_line_ = options_.clock();
  last_done_ = last_line_done_ = options_.start_bytes;
  next_draw_ = start_ + (options_.mode == ProgressMode::bar ? 0 : interval_s(options_.mode));
  if (options_.mode == ProgressMode::silent) {
    next_draw_ = std::numeric_limits<double>::infinity();
  } else {
    style_ = text_style(fileno(options_.stream));
  }
  if (options_.mode == ProgressMode::json) write(json_text("start", start_) + "\n");
}

Progress::~Progress() { abort(); }

void Progress::add(std::uint64_t bytes, std::string_view item) {
  done_.fetch_add(bytes, std::memory_order_relaxed);
  draw_if_due(item);
}

void Progress::update(std::uint64_t bytes_done, std::string_view item) {
  std::uint64_t seen = done_.load(std::memory_order_relaxed);
  while (seen < bytes_done &&
         !done_.compare_exchange_weak(seen, bytes_done, std::memory_order_relaxed)) {
  }
  draw_if_due(item);
}

void Progress::draw_if_due(std::string_view item) {
  if (options_.mode == ProgressMode::silent) return;
  const double now = options_.clock();
  if (now < next_draw_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || ended_ || now < next_draw_.load(std::memory_order_relaxed)) return;
  next_draw_.store(now + interval_s(options_.mode), std::memory_order_relaxed);
  draw(now, item);
}

int Progress::width() const {
  return options_.width > 0 ? options_.width : terminal_width(fileno(options_.stream));
}

void Progress::draw(double now, std::string_view item) {
  const std::uint64_t done = bytes_done();
  if (!item.empty()) item_ = item;
  measure_rate(now, done);
  if (options_.mode == ProgressMode::bar) {
    // One column stays free: a full line makes some terminals wrap.
    write("\r" + bar_text(done, (width() > 0 ? width() : 80) - 1) + "\x1b[K");
    drawn_ = true;
  } else if (options_.mode == ProgressMode::json) {
    write(json_text("progress", now) + "\n");
  } else {
    const bool tenth =
        options_.total_bytes > 0 && done - last_line_done_ >= options_.total_bytes / 10;
    if (now - last_line_ < 5 && !tenth) return;
    write(line_text(done) + "\n");
    last_line_ = now;
    last_line_done_ = done;
  }
}

void Progress::measure_rate(double now, std::uint64_t done) {
  const double passed = now - last_time_;
  if (passed < 0.05) return;
  const double sample = static_cast<double>(done - last_done_) / passed;
  // Until the memory is full this is the plain average since the start.
  const double weight = std::max(1 - std::exp(-passed / rate_memory_s), passed / (now - start_));
  rate_ += std::min(weight, 1.0) * (sample - rate_);
  last_time_ = now;
  last_done_ = done;
}

double Progress::share(std::uint64_t done) const {
  if (options_.total_bytes == 0) return 0;
  return std::min(1.0, static_cast<double>(done) / static_cast<double>(options_.total_bytes));
}

double Progress::eta(std::uint64_t done) const {
  if (options_.total_bytes == 0 || rate_ <= 0) return std::numeric_limits<double>::quiet_NaN();
  const std::uint64_t left = options_.total_bytes > done ? options_.total_bytes - done : 0;
  return static_cast<double>(left) / rate_;
}

std::string Progress::bar_text(std::uint64_t done, int width) const {
  const bool known = options_.total_bytes > 0;
  const std::string position =
      known ? fmt::format("{:3.0f} %", std::floor(share(done) * 100)) : format_bytes(done);
  std::string text = options_.operation.empty() ? position : options_.operation + "  " + position;
  const auto fits = [&](int more) { return display_width(text) + more <= width; };
  const std::string speed = rate_ > 0 ? "  " + format_rate(rate_) : "";
  const std::string left = known ? "  ETA " + format_clock(eta(done)) : "";
  const int figures = display_width(speed) + display_width(left);
  for (const int columns : {24, 12}) {
    if (known && fits(figures + columns + 4 + (columns == 24 ? 24 : 0))) {
      text += "  " + bar_of(share(done), columns, style_.boxes);
      break;
    }
  }
  if (fits(display_width(speed))) text += speed;
  if (fits(display_width(left))) text += left;
  const int room = width - display_width(text) - 2;
  if (room >= 12 && !item_.empty())
    text += "  " + shorten_name(printable(item_, style_.utf8), room);
  return shorten_middle(text, width);
}

std::string Progress::line_text(std::uint64_t done) const {
  std::string text = options_.operation.empty() ? "" : options_.operation + ": ";
  text += format_bytes(done);
  if (options_.total_bytes > 0) {
    text += fmt::format(" of {}, {:.0f} %", format_bytes(options_.total_bytes),
                        std::floor(share(done) * 100));
  }
  if (rate_ > 0) text += ", " + format_rate(rate_);
  if (options_.total_bytes > 0 && rate_ > 0) text += ", " + format_clock(eta(done)) + " left";
  if (!item_.empty()) text += ", " + printable(item_, false);
  return text;
}

std::string Progress::json_text(const char* event, double now) const {
  const std::uint64_t done = bytes_done();
  nlohmann::ordered_json json = {{"event", event}, {"operation", options_.operation}};
  json["bytes_done"] = done;
  json["bytes_total"] =
      options_.total_bytes > 0 ? nlohmann::ordered_json(options_.total_bytes) : nullptr;
  json["seconds"] = now - start_;
  json["bytes_per_second"] = rate_ > 0 ? nlohmann::ordered_json(rate_) : nullptr;
  json["eta_seconds"] = eta(done);  // NaN is written as null
  if (!item_.empty()) json["item"] = item_;
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

void Progress::write(const std::string& text) {
  // Progress is a courtesy: where it cannot be written, the work goes on.
  if (std::fwrite(text.data(), 1, text.size(), options_.stream) == text.size()) {
    std::fflush(options_.stream);
  }
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = true;
  if (options_.mode == ProgressMode::silent) return;
  const double now = options_.clock();
  const std::uint64_t done = bytes_done();
  const std::uint64_t worked = done - std::min(done, options_.start_bytes);
  const double seconds = now - start_;
  rate_ = seconds > 0 ? static_cast<double>(worked) / seconds : 0;
  if (options_.mode == ProgressMode::json) {
    write(json_text("finish", now) + "\n");
    return;
  }
  std::string text = options_.operation.empty() ? "" : options_.operation + ": ";
  text += fmt::format("{} in {}", format_bytes(worked), format_duration(seconds));
  const bool bar = options_.mode == ProgressMode::bar;
  const std::string end = bar ? "\x1b[K\n" : "\n";
  if (rate_ > 0) {
    const std::string rate = format_rate(rate_);
    const bool fits = width() == 0 || display_width(text + ", " + rate) <= width();
    text += (fits ? ", " : "," + end + "  ") + rate;
  }
  write((bar ? "\r" : "") + text + end);
}

void Progress::abort() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = true;
  if (options_.mode == ProgressMode::json) write(json_text("abort", options_.clock()) + "\n");
  if (drawn_) write("\n");
}

}  // namespace microscale
