#include "emulator/machine/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "emulator/machine/recorder.hpp"

namespace microscale::emulator {
namespace {

constexpr std::align_val_t row_alignment{64};

// Instructions a warp runs before others get their turn, by schedule.
constexpr std::int64_t long_turn = 20000;
// Instructions of all its warps without a write, after which a cluster lets others go first.
constexpr std::uint64_t patience = 20000;
// Instructions after which the caller is asked whether to go on.
constexpr std::uint64_t look_every = 20000;

void release(std::uint8_t* memory) { ::operator delete[](memory, row_alignment); }

/// The next of a sequence of well-mixed numbers (splitmix64).
std::uint64_t mixed(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

ClusterShape shape_of(const LaunchState& launch) {
  ClusterShape shape;
  shape.blocks = launch.shape.cluster_blocks();
  shape.warps = (launch.shape.threads() + warp_lanes - 1) / warp_lanes;
  shape.shared_bytes = shape.zeros_from = launch.shared_bytes();
  if (launch.program.reserved_shared) {
    shape.zeros_from = launch.reserved_from();
    shape.shared_bytes = shape.zeros_from + reserved_bytes;
  }
  shape.tensor_memory = launch.program.tensor_memory;
  shape.local_bytes = static_cast<std::uint64_t>(launch.program.local_bytes);
  return shape;
}

}  // namespace

Cluster::Cluster(LaunchState& launch, std::uint64_t* counts)
    : launch_(launch),
      memory_(launch.memory, shape_of(launch)),
      counts_(counts),
      registers_(nullptr, release) {
  const ClusterShape shape = shape_of(launch);
  const std::size_t bytes = Warp::memory_bytes(launch.program) * shape.warps * shape.blocks;
  registers_.reset(static_cast<std::uint8_t*>(
      ::operator new[](std::max<std::size_t>(bytes, 64), row_alignment)));
  std::fill(registers_.get(), registers_.get() + bytes, std::uint8_t{0});
  for (std::uint32_t rank = 0; rank < shape.blocks; ++rank)
    blocks_.push_back(std::make_unique<Block>(*this, rank));
}

void Cluster::begin(std::uint64_t number) {
  const LaunchShape& shape = launch_.shape;
  memory_.begin(static_cast<std::uint32_t>(number));
  const std::array<std::uint32_t, 3> origin = shape.origin(number);
  warps_.clear();
  round_start_ = round_length_ = 0;
  barrier_lanes_ = 0;
  std::uint8_t* registers = registers_.get();
  for (std::uint32_t rank = 0; rank < blocks_.size(); ++rank) {
    const std::uint32_t place[3] = {origin[0] + rank % shape.cluster[0],
                                    origin[1] + rank / shape.cluster[0] % shape.cluster[1],
                                    origin[2] + rank / (shape.cluster[0] * shape.cluster[1])};
    blocks_[rank]->start(place, registers);
    registers += Warp::memory_bytes(launch_.program) * blocks_[rank]->warps().size();
    for (Warp& warp : blocks_[rank]->warps()) warps_.push_back(&warp);
  }
  if (launch_.schedule == Schedule::reverse) std::reverse(warps_.begin(), warps_.end());
  random_ = launch_.seed + number * 0x5851f42d4c957f2du;
}

Cluster::Turn Cluster::run() {
  std::uint64_t idle = 0, writes = memory_.writes();  // instructions since the last of these
  while (!warps_.empty()) {
    std::uint64_t progress = 0;
    bool finished = false;
    for (std::size_t i = 0; i < warps_.size(); ++i) {
      std::int64_t turn = long_turn;
      if (launch_.schedule == Schedule::random) {
        std::swap(warps_[i], warps_[i + mixed(random_) % (warps_.size() - i)]);
        turn = static_cast<std::int64_t>(1 + mixed(random_) % 200);
      }
      Warp& warp = *warps_[i];
      const std::uint64_t before = warp.executed();
      const Warp::Outcome outcome = warp.run(turn);
      progress += warp.executed() - before;
      if (launch_.recorder)
        record_turn(warp, warp.executed() - before, outcome == Warp::Outcome::blocked);
      finished |= outcome == Warp::Outcome::finished;
      if (outcome == Warp::Outcome::stopped) launch_.stopped = true;
      if (!spend(warp.executed() - before)) {
        warp.report(
            launch_.program.code[warp.place()], FindingKind::endless, 0,
            fmt::format(
                "the launch has executed {} warp-instructions, its budget, and has not ended",
                launch_.budget),
            true);
        launch_.stopped = true;
      }
      if (launch_.keep_going && (looked_ += warp.executed() - before) >= look_every) {
        looked_ = 0;
        if (!launch_.keep_going()) launch_.interrupted = launch_.stopped = true;
      }
      if (launch_.stopped) return Turn::ended;
    }
    round_start_ += std::exchange(round_length_, 0);
    if (finished) std::erase_if(warps_, [](const Warp* warp) { return warp->live() == 0; });
    if (progress == 0 && !finished && !mend_standstill()) {
      report_deadlock();
      launch_.stopped = true;
      return Turn::ended;
    }
    idle = finished || memory_.writes() != writes ? 0 : idle + progress;
    writes = memory_.writes();
    if (idle >= patience && !warps_.empty()) return Turn::waits;
  }
  memory_.end();
  return Turn::ended;
}

void Cluster::record_turn(Warp& warp, std::uint64_t instructions, bool waits) {
  if (!launch_.recorder->watches_block(warp.block().linear())) return;
  round_length_ = std::max(round_length_, instructions);
  if (instructions == 0) return;  // it still waits
  launch_.recorder->add_turn({.warp = warp.index(),
                              .start = round_start_,
                              .instructions = instructions,
                              .waits = waits ? warp.waiting() : std::string()});
}

bool Cluster::spend(std::uint64_t instructions) {
  return (launch_.executed += instructions) <= launch_.budget || launch_.budget == 0;
}

/// No warp could go on: asynchronous copies may still land, and instructions that wait for lanes
/// which will not come are reported and let go.
bool Cluster::mend_standstill() {
  if (memory_.in_flight() && memory_.land_all()) return true;
  return std::any_of(warps_.begin(), warps_.end(), [](Warp* warp) { return warp->force(); });
}

void Cluster::report_deadlock() {
  std::string who;
  constexpr std::size_t most = 8;
  for (std::size_t i = 0; i < std::min(most, warps_.size()); ++i)
    who += fmt::format("{}{}", i ? "; " : "", warps_[i]->waiting());
  if (warps_.size() > most) who += fmt::format("; and {} more warps", warps_.size() - most);
  Warp& first = *warps_.front();
  first.report(launch_.program.code[first.place()], FindingKind::deadlock, 0,
               "no warp can go on: " + who, true);
}

void Cluster::arrive(Warp&, std::uint32_t lanes) {
  barrier_lanes_ += lanes;
  open_if_complete();
}

void Cluster::on_exit() { open_if_complete(); }

void Cluster::open_if_complete() {
  std::uint32_t live = 0;
  for (const auto& block : blocks_) live += block->live_threads();
  if (barrier_lanes_ == 0 || barrier_lanes_ < live) return;
  barrier_lanes_ = 0;
  ++barrier_phase_;
  memory_.on_cluster_open();
  for (const auto& block : blocks_)
    for (Warp& warp : block->warps())
      if (warp.open(Block::cluster_barrier) > 0)
        memory_.on_cluster_wait(block->rank(), warp.index());
}

}  // namespace microscale::emulator
