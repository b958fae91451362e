#include "emulator/machine/grid.hpp"

#include <algorithm>
#include <deque>
#include <memory>

#include "core/threads.hpp"
#include "emulator/machine/cluster.hpp"

namespace microscale::emulator {
namespace {

// What clusters that wait may take of the host's memory, about, and how many there are at most: a
// GPU has not more of them at once either.
constexpr std::uint64_t waiting_bytes = std::uint64_t{1} << 30;
constexpr std::uint64_t most_waiting = 4096, least_waiting = 8;

std::size_t waiting_room(const LaunchState& launch, std::size_t threads) {
  const std::uint64_t warps = (launch.shape.threads() + warp_lanes - 1) / warp_lanes;
  const std::uint64_t shared =
      static_cast<std::uint64_t>(launch.program.shared_bytes) + launch.shape.dynamic_shared_bytes;
  const std::uint64_t local =
      static_cast<std::uint64_t>(launch.program.local_bytes) * launch.shape.threads();
  const std::uint64_t tensor = launch.program.tensor_memory ? TensorMemory::bytes : 0;
  constexpr std::uint64_t with_shadow = 5;  // times the bytes of memory
  const std::uint64_t each =
      launch.shape.cluster_blocks() *
          (warps * Warp::memory_bytes(launch.program) + with_shadow * (shared + local + tensor)) +
      4096;
  return static_cast<std::size_t>(
      std::clamp(waiting_bytes / each / threads, least_waiting, most_waiting));
}

// One host thread: begins clusters as long as there are any, and goes on with those that waited.
class Worker {
 public:
  Worker(LaunchState& launch, std::size_t room, std::uint64_t* counts)
      : launch_(launch), room_(room), counts_(counts) {}

  void run() {
    while (!launch_.stopped) {
      std::unique_ptr<Cluster> cluster = begun();
      if (!cluster) {
        if (waiting_.empty()) return;
        cluster = std::move(waiting_.front());
        waiting_.pop_front();
      }
      if (cluster->run() == Cluster::Turn::ended)
        ended_ = std::move(cluster);
      else
        waiting_.push_back(std::move(cluster));
    }
  }

 private:
  // The next of the grid, or null: there is none, or no room for one more that may wait.
  std::unique_ptr<Cluster> begun() {
    if (waiting_.size() >= room_) return nullptr;
    const std::optional<std::uint64_t> number = launch_.take_cluster();
    if (!number) return nullptr;
    std::unique_ptr<Cluster> cluster =
        ended_ ? std::move(ended_) : std::make_unique<Cluster>(launch_, counts_);
    cluster->begin(*number);
    return cluster;
  }

  LaunchState& launch_;
  const std::size_t room_;
  std::uint64_t* counts_;
  std::unique_ptr<Cluster> ended_;  // whose memory the next one takes
  std::deque<std::unique_ptr<Cluster>> waiting_;
};

}  // namespace

void run_grid(LaunchState& launch, std::vector<std::vector<std::uint64_t>>& counts) {
  const std::size_t room = waiting_room(launch, counts.size());
  parallel_for(static_cast<std::int64_t>(counts.size()), static_cast<int>(counts.size()),
               [&](std::int64_t index) {
                 auto& own = counts[static_cast<std::size_t>(index)];
                 Worker(launch, room, own.empty() ? nullptr : own.data()).run();
               });
}

}  // namespace microscale::emulator
