#include "interruptible.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "microscale/error.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

struct News {
  std::int64_t done = 0, total = 0;
  std::string item;
};

/// What the two threads say to each other.
class Desk {
 public:
  bool report(std::int64_t done, std::int64_t total, std::string_view item) {
    const std::lock_guard lock(mutex_);
    news_ = News{done, total, std::string(item)};
    return !stop_ && !interpreter_is_ending();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }
  /// Waits a little; true once the work is over.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return finished_; });
  }
  std::optional<News> take_news() {
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<News> news_;
  bool stop_ = false, finished_ = false;
};

}  // namespace

void run_interruptible(nb::handle progress,
                       const std::function<void(const ProgressCallback&)>& work) {
  if (!progress.is_none() && !PyCallable_Check(progress.ptr()))
    throw nb::type_error((std::string("progress: expected a function, got ") +
                          nb::type_name(progress.type()).c_str())
                             .c_str());
  Desk desk;
  std::exception_ptr failure;
  std::optional<nb::python_error> raised;
  bool refused = false;
  std::thread worker([&] {
    try {
      work([&desk](std::int64_t done, std::int64_t total, std::string_view item) {
        return desk.report(done, total, item);
      });
    } catch (...) {
      failure = std::current_exception();
    }
    desk.finish();
  });
  const auto tell = [&] {
    const std::optional<News> news = desk.take_news();
    if (!news || progress.is_none() || raised || refused) return;
    try {
      const nb::object answer = progress(news->done, news->total, text_of(news->item));
      refused = answer.is(nb::handle(Py_False));
    } catch (nb::python_error& error) {
      raised.emplace(std::move(error));
    }
  };
  for (bool over = false; !over;) {
    {
      const WithoutGil released;
      over = desk.wait();
      if (over) worker.join();
    }
    if (!over && !raised && PyErr_CheckSignals() != 0) raised.emplace();
    tell();
    if (raised || refused) desk.stop();
  }
  if (raised) throw std::move(*raised);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace microscale::python
