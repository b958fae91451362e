#include "emulator/machine/warp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "emulator/machine/block.hpp"
#include "emulator/machine/recorder.hpp"
#include "emulator/ops/barrier.hpp"

namespace microscale::emulator {
namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 63) & ~std::size_t{63}; }

bool mergeable(const Group& group) { return group.state != Group::State::blocked; }

}  // namespace

std::string lane_list(std::uint32_t lanes) {
  std::string text = std::popcount(lanes) == 1 ? "lane " : "lanes ";
  bool first = true;
  for (int i = 0; i < warp_lanes; ++i) {
    if (!(lanes >> i & 1)) continue;
    int last = i;
    while (last + 1 < warp_lanes && (lanes >> (last + 1) & 1)) ++last;
    text += fmt::format("{}{}", first ? "" : ", ", i);
    if (last > i) text += fmt::format("-{}", last);
    first = false;
    i = last;
  }
  return text;
}

std::size_t Warp::memory_bytes(const Program& program) {
  return aligned(program.row_bytes) +
         aligned(4 * std::size_t{program.predicate_count + program.register_count}) +
         aligned(warp_lanes * static_cast<std::size_t>(program.call_bytes));
}

void Warp::start(const Program& program, Block& block, std::uint32_t index, std::uint32_t lanes,
                 std::uint8_t* memory) {
  program_ = &program;
  block_ = &block;
  index_ = index;
  Recorder* recorder = block.launch().recorder;
  recorder_ = recorder && recorder->watches(block.linear(), index) ? recorder : nullptr;
  live_ = lanes;
  active_ = {.pc = 0,
             .lanes = lanes,
             .state = Group::State::ready,
             .barrier = 0,
             .gathers = false,
             .awaited = 0,
             .absent = 0,
             .pending = nullptr,
             .calls = {}};
  others_.clear();
  merge_pc_ = ~0u;
  executed_ = 0;
  forced_ = passes_ = false;
  frames_.clear();
  undefined_.reset();
  flight_.start(program);
  base[0] = memory;
  base[1] = const_cast<std::uint8_t*>(program.constants.data()->bytes) + constants_bias;
  predicates = reinterpret_cast<std::uint32_t*>(memory + aligned(program.row_bytes));
  written_ = predicates + program.predicate_count;
  std::memset(predicates, 0, 4 * std::size_t{program.predicate_count + program.register_count});
  predicates[always] = ~0u;
  call_memory_ = memory + aligned(program.row_bytes) +
                 aligned(4 * std::size_t{program.predicate_count + program.register_count});
  fill_specials();
}

void Warp::fill_specials() {
  for (const SpecialRow& special : program_->specials) {
    std::uint32_t values[warp_lanes];
    block_->special(special, index_, values);
    std::memcpy(row(special.slot), values, sizeof values);
  }
}

Agent Warp::agent(const Op& op) const {
  return {.block = block_->linear(),
          .warp = index_,
          .instruction = index_of(op),
          .rank = block_->rank()};
}

Warp::Outcome Warp::run(std::int64_t quantum) {
  const bool watched = recorder_ || block_->counts();
  if (undefined_)
    return watched ? run_groups<true, true>(quantum) : run_groups<false, true>(quantum);
  return watched ? run_groups<true, false>(quantum) : run_groups<false, false>(quantum);
}

/// `op` when a flag of it is set.
Step Warp::run_checked(const Op& op, std::uint32_t lanes) {
  if ((op.flags & (checks_reads | decides)) == checks_reads && reads_undefined(lanes)) {
    begin_undefined();
    const Step step = run_undefined(op, lanes);
    return step == Step::next ? carry_on() : step;
  }
  if (op.flags & (checks_reads | touches_matrix)) check_registers(op, lanes);
  if (!lanes) return Step::next;
  const OpInfo& info = program_->info[index_of(op)];
  const auto mark = [&] {
    for (const std::uint32_t reg : info.writes) written_[reg] |= lanes;
  };
  // Before it runs: a load may find that what it wrote is undefined. Reads that only the handler
  // knows may be of what it writes.
  const bool tracks = op.flags & tracks_writes;
  if (tracks && info.late_reads == 0) mark();
  const Step step = op.run(op, *this, lanes);
  if (tracks && info.late_reads != 0 && step != Step::wait) mark();
  return step;
}

/// `watched`: somebody counts or records. `undefined`: there are undefined values to look after.
template <bool watched, bool undefined>
Warp::Outcome Warp::run_groups(std::int64_t quantum) {
  for (Group& group : others_)
    if (group.state == Group::State::retry) group.state = Group::State::ready;
  if (active_.state == Group::State::retry) active_.state = Group::State::ready;
  if (!pick()) return live_ ? Outcome::blocked : Outcome::finished;
  const Op* const code = program_->code.data();
  [[maybe_unused]] std::uint64_t* const counts = block_->counts();
  for (;;) {
    if constexpr (!undefined)
      if (undefined_) return run(quantum);
    std::uint32_t pc = active_.pc;
    straight_from_ = pc;
    Step step = Step::next;
    // One instruction: whether to go straight on. Each costs what stands here.
    const auto perform = [&](const Op& op) __attribute__((always_inline)) {
      const std::uint32_t lanes = active_.lanes & (predicates[op.guard] ^ op.guard_flip);
      [[maybe_unused]] const std::uint32_t here = active_.lanes;
      if constexpr (watched)
        if (counts) {
          ++counts[2 * pc];
          counts[2 * pc + 1] += static_cast<std::uint64_t>(std::popcount(lanes));
        }
      if constexpr (undefined)
        step = run_undefined(op, lanes);
      else if (op.flags & ~decides) [[unlikely]]
        step = run_checked(op, lanes);
      else if (lanes) [[likely]]
        step = op.run(op, *this, lanes);
      if constexpr (watched)
        if (recorder_ && step != Step::wait) recorder_->add(*this, pc, here, lanes);
      if (step != Step::next) [[unlikely]]
        return false;
      active_.pc = ++pc;
      if (pc == merge_pc_) [[unlikely]]
        merge();
      return true;
    };
    // Several calls, so that the processor tells one instruction's successor from another's.
    for (const Op* op = code + pc;
         perform(op[0]) && perform(op[1]) && perform(op[2]) && perform(op[3]) && perform(op[4]) &&
         perform(op[5]) && perform(op[6]) && perform(op[7]);
         op += 8) {
    }
    executed_ += pc - straight_from_;
    quantum -= pc - straight_from_;
    if (step == Step::stop) return Outcome::stopped;
    if (step == Step::wait) {
      active_.state = Group::State::retry;
    } else {
      ++executed_;
      if (std::exchange(passes_, false)) quantum = 0;
      if (--quantum < 0 && active_.state == Group::State::ready)
        active_.state = Group::State::yields;
    }
    if (active_.state == Group::State::ready && others_.empty() && active_.lanes) continue;
    if (quantum < 0) return live_ ? Outcome::quantum : Outcome::finished;
    if (!pick()) return live_ ? Outcome::blocked : Outcome::finished;
  }
}

/// Puts the running group aside and takes the one to run next: the deepest in calls, then the
/// lowest pc; those that have run for long only when there is no other. False if none can run.
bool Warp::pick() {
  if (active_.lanes) others_.push_back(std::move(active_));
  active_ = {};
  for (int pass = 0; pass < 2; ++pass) {
    const Group::State wanted = pass ? Group::State::yields : Group::State::ready;
    std::size_t best = others_.size();
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (others_[i].state != wanted) continue;
      if (best == others_.size() || others_[i].calls.size() > others_[best].calls.size() ||
          (others_[i].calls.size() == others_[best].calls.size() &&
           others_[i].pc < others_[best].pc))
        best = i;
    }
    if (best == others_.size()) {
      if (pass == 0 && release_warp_barrier()) pass = -1;
      continue;
    }
    active_ = std::move(others_[best]);
    others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(best));
    active_.state = Group::State::ready;
    active_.gathers = false;
    active_.awaited = 0;
    merge_pc_ = active_.pc;
    merge();
    return true;
  }
  merge_pc_ = ~0u;
  return false;
}

void Warp::absorb(Group& other) {
  active_.lanes |= other.lanes;
  active_.absent |= other.absent;
  other.lanes = 0;
}

void Warp::merge() {
  for (Group& other : others_)
    if (mergeable(other) && other.pc == active_.pc && other.calls == active_.calls) absorb(other);
  std::erase_if(others_, [](const Group& group) { return group.lanes == 0; });
  find_merge_point();
}

void Warp::find_merge_point() {
  merge_pc_ = ~0u;
  for (const Group& other : others_)
    if (mergeable(other) && other.pc > active_.pc && other.calls == active_.calls)
      merge_pc_ = std::min(merge_pc_, other.pc);
}

/// `lanes` of the running group go on behind its instruction, without the others.
void Warp::leave_behind(std::uint32_t lanes) {
  Group stays = active_;
  stays.lanes = lanes;
  ++stays.pc;
  others_.push_back(std::move(stays));
  active_.lanes &= ~lanes;
}

Step Warp::scatter(const std::uint32_t* targets, std::uint32_t lanes) {
  if (const std::uint32_t rest = active_.lanes & ~lanes) leave_behind(rest);
  for (std::uint32_t left = lanes; left;) {
    const std::uint32_t target = targets[std::countr_zero(left)];
    std::uint32_t same = 0;
    for (std::uint32_t each = left; each; each &= each - 1)
      if (targets[std::countr_zero(each)] == target) same |= each & (0u - each);
    Group part = active_;
    part.lanes = same;
    part.pc = target;
    others_.push_back(std::move(part));
    left &= ~same;
  }
  active_.lanes = 0;
  return Step::jump;
}

Step Warp::exit(std::uint32_t lanes) {
  if (!others_.empty()) note_absent(lanes);
  live_ &= ~lanes;
  active_.lanes &= ~lanes;
  ++active_.pc;
  for (Group& group : others_)
    if (group.state == Group::State::retry) group.state = Group::State::ready;
  block_->on_exit(*this);
  return Step::jump;
}

Step Warp::pass() {
  passes_ = true;
  return branch(active_.pc + 1, active_.lanes);
}

Step Warp::block_at(std::uint8_t barrier, const Op& op, std::uint32_t lanes) {
  branch(active_.pc + 1, lanes);
  active_.state = Group::State::blocked;
  active_.barrier = barrier;
  active_.pending = &op;
  return Step::jump;
}

int Warp::open(std::uint8_t barrier, std::uint32_t count, bool all, bool any) {
  int opened = 0;
  const auto release = [&](Group& group) {
    if (group.state != Group::State::blocked || group.barrier != barrier || !group.lanes) return;
    if (group.pending) deliver_reduction(*this, *group.pending, group.lanes, count, all, any);
    group.state = Group::State::ready;
    group.pending = nullptr;
    opened += std::popcount(group.lanes);
  };
  release(active_);
  for (Group& group : others_) release(group);
  if (active_.lanes && merge_pc_ != ~0u) find_merge_point();
  return opened;
}

Step Warp::report(const Op& op, FindingKind kind, int lane, std::string message, bool fatal) {
  Finding finding = block_->places().at(agent(op), lane);
  finding.kind = kind;
  finding.message = std::move(message);
  block_->sink().add(std::move(finding), fatal);
  return fatal ? Step::stop : Step::next;
}

std::uint32_t Warp::place() const {
  const Group* group = active_.lanes || others_.empty() ? &active_ : &others_.front();
  if (group->state == Group::State::blocked && group->pending) return index_of(*group->pending);
  return std::min(group->pc, static_cast<std::uint32_t>(program_->code.size() - 1));
}

std::string Warp::waiting() const {
  std::string text;
  const auto describe = [&](const Group& group) {
    if (!group.lanes) return;
    const bool behind = group.state == Group::State::blocked;
    const std::uint32_t pc =
        behind ? static_cast<std::uint32_t>(group.pending - program_->code.data()) : group.pc;
    text +=
        fmt::format("{}warp {}: {} at {} ({})", text.empty() ? "" : "; ", index_,
                    lane_list(group.lanes), block_->places().name(pc), program_->info[pc].opcode);
    if (behind) {
      text += fmt::format(" waits for {}", block_->describe(group.barrier));
    } else if (const Op& op = program_->code[pc];
               program_->info[pc].opcode.starts_with("mbarrier")) {
      const int lane = std::countr_zero(group.lanes);
      text += " waits for " +
              block_->memory().describe_mbarrier(agent(op), mbarrier_address(op, *this, lane));
    } else if (program_->info[pc].opcode == "tcgen05.alloc") {
      text += " waits for columns of tensor memory";
    }
  };
  describe(active_);
  for (const Group& group : others_) describe(group);
  return text;
}

}  // namespace microscale::emulator
