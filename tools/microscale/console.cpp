#include "console.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace microscale {
namespace {

constexpr std::size_t held_limit = 64 * 1024;  // bytes

volatile std::sig_atomic_t interrupts = 0;
volatile std::sig_atomic_t interrupt_text_skipped = 0;  // bytes of interrupt_text left out

// On a terminal it begins on a line of its own, below the progress bar.
constexpr char interrupt_text[] = "\nstopping after the current step; once more to stop at once\n";

// Only what a signal handler may do: set a flag, write, _exit.
void on_interrupt(int) {
  const int saved = errno;
  interrupts = interrupts + 1;
  if (interrupts > 1) _exit(130);
  const auto skipped = static_cast<std::size_t>(interrupt_text_skipped);
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, interrupt_text + skipped, sizeof interrupt_text - 1 - skipped);
  errno = saved;
}

}  // namespace

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::check_failed:
      return 1;
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
      return 2;
    case ErrorCode::bad_input:
      return 3;
    case ErrorCode::out_of_memory:
    case ErrorCode::io:
      return 4;
    case ErrorCode::interrupted:
      return 130;
  }
  return 4;
}

std::string paragraph(std::string_view text, int width, int indent) {
  std::string out;
  for (int left = indent; !text.empty(); left = indent + 2) {
    const auto room = static_cast<std::size_t>(std::max((width > 0 ? width : 80) - left, 16));
    std::size_t end = text.size();
    if (end > room) {
      end = text.rfind(' ', room);
      if (end == std::string_view::npos) end = std::min(text.find(' '), text.size());
    }
    out.append(static_cast<std::size_t>(left), ' ').append(text.substr(0, end)) += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Console::Console() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // Read-only, so that printing to a standard output that was closed still fails.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) != fd) _exit(4);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // ulimit -f: the write that is too long fails, and is reported
  out = text_style(STDOUT_FILENO);
  err = text_style(STDERR_FILENO);
}

void Console::print(std::string_view text) { print_as_is(fitted(text, out.width)); }

void Console::print_as_is(std::string_view text) {
  held_ += text;
  if (out.terminal || held_.size() >= held_limit) flush();
}

void Console::print_json(const nlohmann::ordered_json& document) {
  print_as_is(document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
              "\n");
}

void Console::note(std::string_view line) {
  if (json) return;
  flush();
  const std::string text = fitted(printable(line, true), err.width) + "\n";
  std::fwrite(text.data(), 1, text.size(),
              stderr);  // a courtesy: where it cannot be written, go on
}

void Console::flush() {
  const std::string text = std::exchange(held_, {});
  for (std::size_t at = 0; at < text.size() && !closed_;) {
    const ssize_t written = write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (written >= 0) {
      at += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      pollfd wait{STDOUT_FILENO, POLLOUT, 0};
      poll(&wait, 1, -1);
    } else if (errno == EPIPE) {
      closed_ = true;
    } else if (errno != EINTR) {
      throw Error(ErrorCode::io,
                  std::string("cannot write to standard output: ") + std::strerror(errno));
    }
  }
}

std::string Console::bold(std::string_view text) const {
  return out.colour ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
}

std::string Console::dim(std::string_view text) const {
  return out.colour ? "\x1b[2m" + std::string(text) + "\x1b[0m" : std::string(text);
}

ProgressOptions Console::progress(std::string operation, std::uint64_t total_bytes,
                                  std::uint64_t start_bytes) const {
  ProgressOptions options;
  options.stream = stderr;
  options.mode = json ? ProgressMode::json : ProgressMode::automatic;
  options.operation = std::move(operation);
  options.total_bytes = total_bytes;
  options.start_bytes = start_bytes;
  return options;
}

void Console::catch_interrupts() {
  interrupt_text_skipped = json ? sizeof interrupt_text - 1 : !err.terminal;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    // Ignored by the program that started this one (nohup, a background job of a script): stay that
    // way.
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

int Console::report_error(const std::string& command, const char* kind, int code,
                          const std::string& message) {
  const std::string who = command.empty() ? "microscale" : "microscale " + command;
  // The library says which operation failed; the command has just said it.
  const bool said = !command.empty() && message.rfind(command + ": ", 0) == 0;
  const std::string text = said ? message.substr(command.size() + 2) : message;
  const std::string line = fitted(printable(who + ": " + text, true), err.width) + "\n";
  try {
    if (json) {
      print_json(
          {{"error",
            {{"command", command}, {"code", kind}, {"exit_code", code}, {"message", text}}}});
    }
    flush();
  } catch (const std::exception&) {
    // What is wrong is said on standard error all the same.
  }
  std::fwrite(line.data(), 1, line.size(), stderr);
  return code;
}

bool Console::interrupted() const { return interrupts > 0; }

}  // namespace microscale
