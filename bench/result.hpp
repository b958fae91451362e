// One line of a benchmark's table, whatever was timed on whatever device, and who is told of it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace microscale::bench {

/// A time from elsewhere: of the equal plain product, of another program, of another machine.
struct Beside {
  std::string title;  // of its column: "of plain"
  double seconds = 0;
  bool ratio =
      true;  // shown as its share of our time (1.25: we take 1.25 times less), else as it is
};

/// A figure that only one operation has.
struct Extra {
  std::string title, key;  // of the column (empty: none), of the JSON member
  double value = 0;
  int decimals = 1;
};

struct Result {
  std::string name;
  int threads = 0;               // 0: a GPU
  double seconds = 0;            // median of the runs
  double bytes = 0;              // moved at the least; 0: not counted
  double operations = 0;         // 2 m n k; 0: not counted
  std::string limit{};           // what bounds it: "read", "loop", "copy", "AMX"
  bool arithmetic = false;       // that is operations, not bytes
  double limit_seconds = 0;      // what that alone takes, measured in the same run; 0: not known
  double must = 0, stretch = 0;  // shares of the limit to reach; 0: none was set
  double must_seconds = 0;       // or a time to stay below
  double error = -1;  // worst sampled element in units of its bound; negative: not sampled
  std::vector<Beside> beside{};
  std::vector<Extra> extras{};
  std::string problem{};  // why it was not measured
  bool mean = false;      // the geometric mean of the rows before it

  double share() const { return limit_seconds > 0 && seconds > 0 ? limit_seconds / seconds : 0; }
  bool wrong() const { return error > 1; }
};

/// Who is told. Every member may be empty.
struct Watcher {
  std::function<void(const std::string& name, std::size_t number, std::size_t count)> begins{};
  std::function<void(const Result&)> take{};
  std::function<bool()> stop{};  // polled between runs; true: what is unfinished is dropped

  bool stopped() const { return stop && stop(); }
};

/// Measures every case whose name contains `filter`, in order, until the watcher has enough.
/// `measure` gives a Result.
template <class Cases, class Measure>
void measure_each(const Cases& cases, const std::string& filter, const Watcher& watcher,
                  Measure&& measure) {
  std::size_t count = 0, number = 0;
  const auto wanted = [&](const auto& c) { return c.name.find(filter) != std::string::npos; };
  for (const auto& c : cases) count += wanted(c);
  for (const auto& c : cases) {
    if (!wanted(c)) continue;
    if (watcher.begins) watcher.begins(c.name, ++number, count);
    const Result result = measure(c);
    if (watcher.stopped()) return;
    if (watcher.take) watcher.take(result);
  }
}

}  // namespace microscale::bench
